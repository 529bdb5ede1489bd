"""Every claim of ``docs/compatibility.md`` has a test, and every gap that has one is expected."""

import re
from dataclasses import replace

import pytest

from tests.support.compatibility import DOCUMENT, Row, complaints, markers_of, rows
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
"""


def without_cases(row):
    """Return the row with parametrised tests named as their functions."""
    return replace(row, tests=tuple((path, CASE.sub("", name)) for path, name in row.tests))


def case_exists(path, case):
    """Return True when a parametrised test has the case."""
    if path == STATEMENTS:
        return (path.parent / f"{case}.test").is_file()
    return f'"{case}"' in path.read_text(encoding="utf-8")


def disagreement(status, path, name):
    """Return what a group of statements has against a status; None when it proves it."""
    records = [record for record in read(path) if record.name == name]
    if not records:
        return "there is no such group of statements"
    diverging = [record for record in records if record.divergence is not None]
    if diverging == records or (status == "yes" and diverging):
        return f"line {diverging[0].line} differs from PostgreSQL"
    return None


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.feature)
def test_row_names_tests_that_exist(row):
    assert complaints(without_cases(row)) == [], f"line {row.line}"
    cases = [(path, CASE.search(name)) for path, name in row.tests if not path.endswith(".test")]
    missing = [case[0] for path, case in cases if case and not case_exists(ROOT / path, case[1])]
    assert missing == [], f"line {row.line}"


@pytest.mark.parametrize(
    ("status", "path", "name"),
    [
        (row.status, path, name)
        for row in ROWS
        for path, name in row.tests
        if path.endswith(".test")
    ],
)
def test_statements_named_prove_the_row(status, path, name):
    assert disagreement(status, ROOT / path, name) is None


def test_features_are_listed_once():
    features = [row.feature for row in ROWS]
    assert sorted(features) == sorted(set(features))
    assert features


@pytest.fixture
def root(tmp_path):
    (tmp_path / "test_module.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "joins.test").write_text("statement left join\n", encoding="utf-8")
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
    found = complaints(Row(1, "feature", status, tuple(tests), remainder), root)
    if complaint is None:
        assert found == []
    else:
        assert any(complaint in text for text in found)


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
"""


@pytest.mark.parametrize(
    ("status", "name", "complaint"),
    [
        ("yes", "agrees", None),
        ("yes", "agrees in part", "line 10 differs from PostgreSQL"),
        ("partial", "agrees in part", None),
        ("partial", "differs", "line 15 differs from PostgreSQL"),
        ("yes", "agree", "there is no such group of statements"),
    ],
)
def test_statements_are_judged(tmp_path, status, name, complaint):
    path = tmp_path / "file.test"
    path.write_text(STATEMENT_FILE, encoding="utf-8")
    assert disagreement(status, path, name) == complaint


def test_markers_of_a_whole_module_count(tmp_path):
    path = tmp_path / "test_marked.py"
    path.write_text(
        "import pytest\npytestmark = [pytest.mark.catalog, pytest.mark.xfail(reason='x')]\n"
        "def test_it(): ...\n",
        encoding="utf-8",
    )
    assert markers_of(path, "test_it") == {"catalog", "xfail"}


def test_table_is_read():
    text = "\n".join(
        [
            "# Title",
            "| Feature | Status | Test |",
            "|---|:---:|---|",
            "| One | yes | `a.py::test_a`, `b.py::T::test_b` |",
            "| Two | no | — |",
        ]
    )
    assert list(rows(text)) == [
        Row(4, "One", "yes", (("a.py", "test_a"), ("b.py", "T::test_b")), ""),
        Row(5, "Two", "no", (), "—"),
    ]


@pytest.mark.parametrize(
    "text",
    ["| Feature | Test |\n|---|---|", "| Feature | Status | Test |\n|---|---|---|\n| a | yes |"],
)
def test_table_of_another_shape_is_refused(text):
    with pytest.raises(ValueError, match="line"):
        list(rows(text))
