"""Every claim of ``docs/compatibility.md`` has a test, and every gap that has one is expected."""

import pytest

from tests.support.compatibility import DOCUMENT, Row, complaints, markers_of, rows

ROWS = list(rows(DOCUMENT.read_text(encoding="utf-8")))

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


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.feature)
def test_row_names_tests_that_exist(row):
    assert complaints(row) == [], f"line {row.line}"


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
