"""The table of features in ``docs/compatibility.md``, read and checked against the tests."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.support.repository import ROOT

DOCUMENT = ROOT / "docs" / "compatibility.md"

HEADER = ["Feature", "Status", "Test"]
STATUSES = frozenset({"yes", "partial", "no"})
GAP_MARKERS = frozenset({"xfail", "notimpl", "notyet", "never"})
"""Markers of tests that are expected to fail, and fail the run when they pass."""

_TEST = re.compile(r"`([^`]+?)::([^`]+)`")


@dataclass(frozen=True)
class Row:
    """One feature."""

    line: int
    feature: str
    status: str
    tests: tuple[tuple[str, str], ...]
    """Path and name of each test."""
    remainder: str
    """What the last column holds besides tests, commas and blanks."""


def rows(text: str) -> Iterator[Row]:
    """Yield the rows of all tables of the document.

    Raises:
        ValueError: a table is not one of features.
    """
    previous: list[str] | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        cells = _cells(line)
        if cells is None:
            previous = None
            continue
        if previous is None:
            if cells != HEADER:
                raise ValueError(f"line {number}: expected a table with the columns {HEADER}")
        elif not all(re.fullmatch(r":?-+:?", cell) for cell in cells):
            if len(cells) != len(HEADER):
                raise ValueError(f"line {number}: expected {len(HEADER)} columns")
            feature, status, tests = cells
            yield Row(
                line=number,
                feature=feature,
                status=status,
                tests=tuple(_TEST.findall(tests)),
                remainder=re.sub(r"[,\s]", "", _TEST.sub("", tests)),
            )
        previous = cells


def complaints(row: Row, root: Path = ROOT) -> list[str]:
    """Return what is wrong with a row; nothing when it is right."""
    found = []
    if row.status not in STATUSES:
        found.append(f"status {row.status!r} is none of {sorted(STATUSES)}")
    if row.remainder not in ({"", "—", "-"} if row.status == "no" and not row.tests else {""}):
        found.append(f"{row.remainder!r} is not a test")
    if row.status != "no" and not row.tests:
        found.append("no test")
    for path, name in row.tests:
        markers = markers_of(root / path, name)
        if markers is None:
            found.append(f"there is no test {path}::{name}")
        elif row.status == "no" and not markers & GAP_MARKERS:
            found.append(f"{path}::{name} is not expected to fail")
        elif row.status != "no" and markers & GAP_MARKERS:
            found.append(f"{path}::{name} is expected to fail")
    return found


def markers_of(path: Path, name: str) -> frozenset[str] | None:
    """Return the names of a test's markers, None when there is no such test.

    A test in Python is a function, or a method named ``Class::method``; a test in any other file is
    a line that holds its name.
    """
    if not path.is_file():
        return None
    if path.suffix == ".py":
        return _python_tests(path).get(name)
    lines = path.read_text(encoding="utf-8").splitlines()
    return frozenset() if any(name in line for line in lines) else None


@cache
def _python_tests(path: Path) -> dict[str, frozenset[str]]:
    module = ast.parse(path.read_text(encoding="utf-8"))
    shared = frozenset(
        marker
        for statement in module.body
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "pytestmark"
        for marker in _markers([statement.value])
    )
    found: dict[str, frozenset[str]] = {}
    for statement in module.body:
        if isinstance(statement, ast.ClassDef):
            inherited = shared | _markers(statement.decorator_list)
            found |= {
                f"{statement.name}::{method.name}": inherited | _markers(method.decorator_list)
                for method in statement.body
                if isinstance(method, ast.FunctionDef) and method.name.startswith("test")
            }
        elif isinstance(statement, ast.FunctionDef) and statement.name.startswith("test"):
            found[statement.name] = shared | _markers(statement.decorator_list)
    return found


def _markers(expressions: list[ast.expr]) -> frozenset[str]:
    marks = (
        part.attr
        for expression in expressions
        for part in _applied(expression)
        if isinstance(part, ast.Attribute) and ast.unparse(part.value).endswith("mark")
    )
    return frozenset(marks)


def _applied(expression: ast.expr) -> Iterator[ast.expr]:
    # Not what is inside the arguments: a case of parametrize may be marked without the test being.
    if isinstance(expression, ast.List | ast.Tuple):
        for element in expression.elts:
            yield from _applied(element)
    else:
        yield expression.func if isinstance(expression, ast.Call) else expression


def _cells(line: str) -> list[str] | None:
    line = line.strip()
    if not line.startswith("|"):
        return None
    return [cell.strip() for cell in line.strip("|").split("|")]
