"""Every claim of ``docs/compatibility.md`` has a test, and every gap that has one is expected."""

import re
from dataclasses import replace

import pytest

from tests.sql.test_sql import resident
from tests.support.compatibility import (
    BOTH,
    DOCUMENT,
    RESIDENT,
    TIERED,
    Row,
    complaints,
    markers_of,
    residencies,
    rows,
)
from tests.support.repository import ROOT
from tests.support.sql_fixtures import read

ROWS = list(rows(DOCUMENT.read_text(encoding="utf-8")))

CASE = re.compile(r"\[([^\]]+)\]$")
"""The case of a parametrised test, at the end of its name."""

STATEMENTS = ROOT / "tests" / "sql" / "test_sql.py"
"""The test whose cases are statement files."""

MODULE = """
import pytest

def test_plain(): ...

@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.xfail)])
def test_one_case_fails(x): ...

@pytest.mark.xfail(reason="not yet")
def test_gap(): ...

@pytest.mark.notimpl
class TestGroup:
    def test_inside(self): ...

def helper(): ...

@pytest.fixture
def server(gateway_process): ...

def test_tiered(server): ...

def test_resident(catalog, inspector): ...
"""

STARTS_ITS_OWN = "test_acknowledged_commits_survive_and_nothing_else"
FOR_A_CLIENT = "test_downgrade_to_the_beginning_leaves_nothing"


def without_cases(row):
    """Return the row with parametrised tests named as their functions."""
    return replace(row, tests=tuple((path, CASE.sub("", name)) for path, name in row.tests))


def case_exists(path, case):
    """Return True when a parametrised test has the case."""
    if path == STATEMENTS:
        return (path.parent / f"{case}.test").is_file()
    return f'"{case}"' in path.read_text(encoding="utf-8")


def claims_of(row):
    """Yield what a row claims of each group of statements, and of each file of them."""
    for path, name in row.tests:
        case = CASE.search(name)
        if path.endswith(".test"):
            file, group = ROOT / path, name
        elif ROOT / path == STATEMENTS and case:
            file, group = STATEMENTS.parent / f"{case[1]}.test", None
        else:
            continue
        for residency in sorted(residencies(path, CASE.sub("", name))):
            yield row.statuses[residency], residency, file, group


def disagreement(status, residency, path, name):
    """Return what a group of statements has against a status; None when it proves it.

    Without a name all statements of the file are the group.
    """
    records = [record for record in read(path) if name in {None, record.name}]
    if not records:
        return "there is no such group of statements"
    if residency == RESIDENT:
        # As tests/sql/test_sql.py runs them.
        records = [resident(record) for record in records if record.sqlstate != "0A000"]
    diverging = [record for record in records if record.divergence is not None]
    if status == "no":
        return None if diverging else "all of it agrees with PostgreSQL"
    if diverging == records or (status == "yes" and diverging):
        return f"line {diverging[0].line} differs from PostgreSQL" if diverging else "nothing runs"
    return None


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.feature)
def test_row_names_tests_that_exist(row):
    assert complaints(without_cases(row)) == [], f"line {row.line}"
    cases = [(path, CASE.search(name)) for path, name in row.tests if not path.endswith(".test")]
    missing = [case[0] for path, case in cases if case and not case_exists(ROOT / path, case[1])]
    assert missing == [], f"line {row.line}"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.feature)
def test_statements_named_prove_the_row(row):
    found = [disagreement(*claim) for claim in claims_of(row)]
    assert [complaint for complaint in found if complaint] == [], f"line {row.line}"


def test_features_are_listed_once():
    features = [row.feature for row in ROWS]
    assert sorted(features) == sorted(set(features))
    assert features


@pytest.fixture
def root(tmp_path):
    (tmp_path / "test_module.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "joins.test").write_text("statement left join\n", encoding="utf-8")
    for directory in ("resident", "refused"):
        path = tmp_path / "tests" / "sql" / directory
        path.mkdir(parents=True)
        (path / "a.test").write_text("# merge\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("status", "tests", "remainder", "complaint"),
    [
        ("yes", [("test_module.py", "test_plain")], "", None),
        ("yes", [("test_module.py", "test_one_case_fails")], "", None),
        ("partial", [("joins.test", "left join")], "", None),
        ("no", [], "—", None),
        ("no", [("test_module.py", "test_gap")], "", None),
        ("no", [("test_module.py", "TestGroup::test_inside")], "", None),
        ("yes", [], "", "no test"),
        ("yes", [], "—", "not a test"),
        ("yes", [("test_module.py", "test_absent")], "", "there is no test"),
        ("yes", [("test_module.py", "helper")], "", "there is no test"),
        ("yes", [("absent.py", "test_plain")], "", "there is no test"),
        ("yes", [("joins.test", "full join")], "", "there is no test"),
        ("yes", [("test_module.py", "test_gap")], "", "is expected to fail"),
        ("partial", [("test_module.py", "TestGroup::test_inside")], "", "is expected to fail"),
        ("no", [("test_module.py", "test_plain")], "", "is not expected to fail"),
        ("no", [], "later", "not a test"),
        ("maybe", [("test_module.py", "test_plain")], "", "status 'maybe'"),
    ],
)
def test_row_is_judged(root, status, tests, remainder, complaint):
    statuses = {RESIDENT: status, TIERED: status}
    found = complaints(Row(1, "feature", statuses, tuple(tests), remainder), root)
    if complaint is None:
        assert found == []
    else:
        assert any(complaint in text for text in found)


ON_RESIDENT = ("tests/sql/resident/a.test", "merge")
ON_TIERED = ("tests/sql/refused/a.test", "merge")


@pytest.mark.parametrize(
    ("resident_status", "tiered_status", "tests", "found"),
    [
        ("yes", "no", [ON_RESIDENT], []),
        ("yes", "no", [ON_RESIDENT, ON_TIERED], []),
        ("no", "yes", [ON_TIERED], []),
        ("yes", "partial", [("joins.test", "left join")], []),
        ("yes", "yes", [ON_RESIDENT], ["no test of tiered tables"]),
        ("yes", "yes", [ON_TIERED], ["no test of resident tables"]),
        ("yes", "no", [ON_TIERED], ["no test of resident tables"]),
        ("yes", "no", [], ["no test of resident tables"]),
        (
            "yes",
            "no",
            [ON_RESIDENT, ("test_module.py", "test_tiered")],
            ["test_module.py::test_tiered is not expected to fail"],
        ),
    ],
)
def test_row_of_both_kinds_of_tables_is_judged(root, resident_status, tiered_status, tests, found):
    statuses = {RESIDENT: resident_status, TIERED: tiered_status}
    assert complaints(Row(1, "feature", statuses, tuple(tests), ""), root) == found


@pytest.mark.parametrize(
    ("depends", "found"), [(True, ["no test of resident tables"]), (False, [])]
)
def test_what_residency_does_not_matter_for_is_proved_by_either(root, depends, found):
    statuses = {RESIDENT: "yes", TIERED: "yes"}
    row = Row(1, "feature", statuses, (ON_TIERED,), "", depends=depends)
    assert complaints(row, root) == found


@pytest.mark.parametrize(
    ("path", "name", "tables"),
    [
        ("test_module.py", "test_plain", BOTH),
        ("test_module.py", "test_tiered", {TIERED}),
        ("test_module.py", "test_resident", {RESIDENT}),
        ("tests/catalog/test_tail.py", "test_the_tail_counts_its_rows", {TIERED}),
        ("tests/catalog/test_capture.py", "test_rows_without_a_key_are_counted", {RESIDENT}),
        ("tests/server/test_short_way.py", "test_pipelines", {TIERED}),
        ("tests/sql/test_sql.py", "test_resident_tables_are_postgresqls", {RESIDENT}),
        ("tests/sql/test_sql.py", "test_gateway_answers_as_postgresql", {TIERED}),
        ("integration/crash/test_crash.py", STARTS_ITS_OWN, {TIERED}),
        ("integration/alembic/test_alembic.py", FOR_A_CLIENT, {RESIDENT}),
        ("tests/rewrite/test_tree.py", "any", {TIERED}),
        ("tests/sql/select/joins.test", "inner join", BOTH),
    ],
)
def test_tables_of_a_test_are_known(root, path, name, tables):
    assert residencies(path, name, root if path == "test_module.py" else ROOT) == tables


def test_cases_are_looked_for(tmp_path):
    path = tmp_path / "test_module.py"
    path.write_text('CASES = {"one": 1}\n', encoding="utf-8")
    assert case_exists(path, "one")
    assert not case_exists(path, "two")
    assert case_exists(STATEMENTS, "select/joins")
    assert not case_exists(STATEMENTS, "select/nothing")


STATEMENT_FILE = """
# agrees
query
SELECT 1

# agrees in part
query
SELECT 2

diverges 0A000: not yet
query
SELECT 3

# differs
diverges: not yet
query
SELECT 4

# differs wherever
diverges: always: nobody has asked for it
query
SELECT 5
"""


@pytest.mark.parametrize(
    ("status", "residency", "name", "complaint"),
    [
        ("yes", TIERED, "agrees", None),
        ("yes", TIERED, "agrees in part", "line 10 differs from PostgreSQL"),
        ("partial", TIERED, "agrees in part", None),
        ("no", TIERED, "agrees in part", None),
        ("no", TIERED, "agrees", "all of it agrees with PostgreSQL"),
        ("partial", TIERED, "differs", "line 15 differs from PostgreSQL"),
        ("yes", TIERED, "agree", "there is no such group of statements"),
        ("yes", RESIDENT, "agrees in part", None),
        ("yes", RESIDENT, "differs", None),
        ("yes", RESIDENT, "differs wherever", "line 20 differs from PostgreSQL"),
        ("partial", RESIDENT, None, None),
        ("yes", RESIDENT, None, "line 20 differs from PostgreSQL"),
    ],
)
def test_statements_are_judged(tmp_path, status, residency, name, complaint):
    path = tmp_path / "file.test"
    path.write_text(STATEMENT_FILE, encoding="utf-8")
    assert disagreement(status, residency, path, name) == complaint


def test_markers_of_a_whole_module_count(tmp_path):
    path = tmp_path / "test_marked.py"
    path.write_text(
        "import pytest\npytestmark = [pytest.mark.catalog, pytest.mark.xfail(reason='x')]\n"
        "def test_it(): ...\n",
        encoding="utf-8",
    )
    assert markers_of(path, "test_it") == {"catalog", "xfail"}


def test_tables_are_read():
    text = "\n".join(
        [
            "# Title",
            "| Feature | Status | Test |",
            "|---|:---:|---|",
            "| One | yes | `a.py::test_a`, `b.py::T::test_b` |",
            "",
            "| Feature | Resident | Tiered | Test |",
            "|---|---|---|---|",
            "| Two | yes | no | — |",
        ]
    )
    tests = (("a.py", "test_a"), ("b.py", "T::test_b"))
    assert list(rows(text)) == [
        Row(4, "One", {RESIDENT: "yes", TIERED: "yes"}, tests, "", depends=False),
        Row(8, "Two", {RESIDENT: "yes", TIERED: "no"}, (), "—"),
    ]


@pytest.mark.parametrize(
    "text",
    ["| Feature | Test |\n|---|---|", "| Feature | Status | Test |\n|---|---|---|\n| a | yes |"],
)
def test_table_of_another_shape_is_refused(text):
    with pytest.raises(ValueError, match="line"):
        list(rows(text))
