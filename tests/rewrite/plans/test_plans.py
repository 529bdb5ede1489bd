"""What statements are compiled to is what the files beside this one say.

Where that has been changed on purpose, ``make plans`` writes it anew, to be reviewed as a change.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.plans import Case, Compiler, broken, cases, compiler, files, joined, written

pytestmark = pytest.mark.catalog


@pytest.fixture(scope="module")
def opened(oracle_uri: str) -> Iterator[Compiler]:
    with compiler(oracle_uri) as found:
        yield found


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=f"{path.stem}-{number}")
        for path in files()
        for number, case in enumerate(cases(path), 1)
    ],
)
def test_a_statement_is_compiled_to_what_its_file_says(opened: Compiler, case: Case) -> None:
    assert opened.plan(case) == case.expected, f"{case.name}: see make plans"


@pytest.mark.parametrize("path", files(), ids=lambda path: path.stem)
def test_a_file_is_what_the_command_writes(opened: Compiler, path: Path) -> None:
    assert written(opened, path) == path.read_text(), "see make plans"


@pytest.mark.parametrize("path", files(), ids=lambda path: path.stem)
def test_no_two_records_are_about_the_same(path: Path) -> None:
    names = [case.name for case in cases(path)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a FROM t",
        "SELECT a, 'x FROM y', `from`, COUNT(DISTINCT b) FROM (SELECT 1 AS a) AS q WHERE (a) > 1",
        "WITH w AS (SELECT 1 AS a) SELECT w.a FROM w LEFT ANTI JOIN v ON w.a = v.a",
        "SELECT " + ", ".join(f"CONCAT('(, ', t.c{n}) AS o{n}" for n in range(9)) + " FROM t",
        "SELECT SUM(a) FILTER(WHERE b) FROM t GROUP BY GROUPING SETS ((a), ())",
    ],
)
def test_line_breaks_are_all_that_is_changed(text: str) -> None:
    assert joined(broken(text)) == text
    assert "\n" in broken(text)
