"""What journals are made of is said in catalog/journal, and nowhere else."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from catalog.journal import layout
from tests.support.repository import PACKAGES, ROOT

LAW = ROOT / "catalog" / "journal"

OTHER_COLUMNS = {"pgwire_gateway/dml/extracts.py": 1}
"""Where names like those of columns are of something else: temporary tables that hold extracts."""

MODULES = sorted(
    path
    for package in PACKAGES
    for path in (ROOT / package).rglob("*.py")
    if not path.is_relative_to(LAW)
)
NAME = re.compile(rf"(?<!\w)(?:{'|'.join(sorted(layout.RESERVED))})(?!\w)")
COLUMN = re.compile(r"(?:^|[^\w}])c\Z")


def law_said_again(source: str) -> Iterator[int]:
    """Yield the lines of strings that name hidden columns, or columns by their numbers."""
    tree = ast.parse(source)
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in documentation:
            text = node.value
            if isinstance(text, str) and (NAME.search(text) or text == layout.SUFFIX):
                yield node.lineno
        if isinstance(node, ast.JoinedStr):
            for before, after in zip(node.values, node.values[1:], strict=False):
                is_prefix = isinstance(before, ast.Constant) and COLUMN.search(str(before.value))
                if is_prefix and isinstance(after, ast.FormattedValue):
                    yield node.lineno


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_names_of_columns_are_taken_from_the_law(path: Path) -> None:
    found = list(law_said_again(path.read_text(encoding="utf-8")))
    assert len(found) == OTHER_COLUMNS.get(str(path.relative_to(ROOT)), 0), found


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("x = 'version_number'", [1]),
        ("\nx = f'SELECT j.row_identity FROM {t}'", [2]),
        ("x = f'c{attnum}'", [1]),
        ("x = f'SELECT w.c{attnum}'", [1]),
        ("x = '_journal'", [1]),
        ("x = 'pg_journal.tail'", []),
        ("x = f'ac{attnum} {c}'", []),
        ("def f():\n    '''Of version_number.'''", []),
        ("x = 'next_version_number'", []),
    ],
)
def test_control_what_is_said_again_is_found(source: str, lines: list[int]) -> None:
    assert list(law_said_again(source)) == lines
