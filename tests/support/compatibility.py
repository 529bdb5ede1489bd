"""The table of features in ``docs/compatibility.md``, read and checked against the tests."""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.support.repository import ROOT

DOCUMENT = ROOT / "docs" / "compatibility.md"

RESIDENT, TIERED = "resident", "tiered"

BOTH = frozenset({RESIDENT, TIERED})

HEADERS = (["Feature", "Status", "Test"], ["Feature", "Resident", "Tiered", "Test"])
"""Tables of what does not depend on residency, and of what does."""

STATUSES = frozenset({"yes", "partial", "no"})
GAP_MARKERS = frozenset({"xfail", "notimpl", "notyet", "never"})
"""Markers of tests that are expected to fail, and fail the run when they pass."""

FIXTURES = {
    "resident_process": RESIDENT,
    "server_under_test": RESIDENT,
    "inspector": RESIDENT,
    "gateway_process": TIERED,
    "catalog": TIERED,
}
"""What tests get their tables from; the first of these decides, as an inspector needs a catalog."""

OPTIONS = {"SPARK_OPTIONS": TIERED, "MACHINE_OPTIONS": RESIDENT}
"""The same for tests that start a gateway of their own."""

TIERED_ONLY = ("tests/rewrite/", "tests/gateway/spark/", "tests/sql/refused/")
RESIDENT_ONLY = ("tests/sql/resident/",)
"""Directories of tests that look at tables of one kind."""
BOTH_KINDS = (
    *(f"tests/security/test_{name}.py" for name in ("boundaries", "rights", "unseen_rows")),
    *(f"tests/server/test_{name}.py" for name in ("commits", "exchanged_names", "rollbacks")),
    *(f"tests/server/test_{name}.py" for name in ("convert", "convert_in_place")),
    "tests/server/test_external_journals.py",
)
"""Files of tests that make some of their tables tiered where others are resident, or have gateways
of either kind; of journals of others it makes no difference."""

_TEST = re.compile(r"`([^`]+?)::([^`]+)`")


@dataclass(frozen=True)
class Row:
    """One feature."""

    line: int
    feature: str
    statuses: Mapping[str, str]
    """Status by residency of the tables."""
    tests: tuple[tuple[str, str], ...]
    """Path and name of each test."""
    remainder: str
    """What the last column holds besides tests, commas and blanks."""
    depends: bool = True
    """Whether residency matters; else tests of either tables prove it."""


def rows(text: str) -> Iterator[Row]:
    """Yield the rows of all tables of the document.

    Raises:
        ValueError: a table is not one of features.
    """
    header: list[str] | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        cells = _cells(line)
        if cells is None:
            header = None
        elif header is None:
            if cells not in HEADERS:
                raise ValueError(f"line {number}: expected a table with the columns of {HEADERS}")
            header = cells
        elif not all(re.fullmatch(r":?-+:?", cell) for cell in cells):
            if len(cells) != len(header):
                raise ValueError(f"line {number}: expected {len(header)} columns")
            feature, *statuses, tests = cells
            # One status holds for both.
            resident, tiered = statuses * (3 - len(statuses))
            yield Row(
                line=number,
                feature=feature,
                statuses={RESIDENT: resident, TIERED: tiered},
                tests=tuple(_TEST.findall(tests)),
                remainder=re.sub(r"[,\s]", "", _TEST.sub("", tests)),
                depends=len(statuses) > 1,
            )


def complaints(row: Row, root: Path = ROOT) -> list[str]:
    """Return what is wrong with a row; nothing when it is right."""
    claims = set(row.statuses.values())
    found = [
        f"status {status!r} is none of {sorted(STATUSES)}" for status in sorted(claims - STATUSES)
    ]
    if row.remainder not in ({"", "—", "-"} if claims == {"no"} and not row.tests else {""}):
        found.append(f"{row.remainder!r} is not a test")
    proved = set()
    for path, name in row.tests:
        markers = markers_of(root / path, name)
        if markers is None:
            found.append(f"there is no test {path}::{name}")
            continue
        tables = residencies(path, name, root)
        proved |= tables
        for status in sorted({row.statuses[residency] for residency in tables}):
            # Of statements it is known line by line which are refused.
            if status == "no" and not markers & GAP_MARKERS and path.endswith(".py"):
                found.append(f"{path}::{name} is not expected to fail")
            elif status != "no" and markers & GAP_MARKERS:
                found.append(f"{path}::{name} is expected to fail")
    unproved = {r for r, status in row.statuses.items() if status != "no"} - proved
    if unproved and (row.depends or not proved):
        found.append(f"no test of {' and '.join(sorted(unproved))} tables")
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


def residencies(path: str, name: str, root: Path = ROOT) -> frozenset[str]:
    """Return which tables a test is about, by where it is and where it gets them from."""
    if path.startswith(TIERED_ONLY):
        return frozenset({TIERED})
    if path.startswith(RESIDENT_ONLY):
        return frozenset({RESIDENT})
    if not path.endswith(".py") or path in BOTH_KINDS:
        return BOTH
    module = ast.parse((root / path).read_text(encoding="utf-8"))
    function = next(
        node
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef) and node.name == name.rpartition("::")[2]
    )
    defined = _shared_fixtures(root) | _fixtures(module)
    used, names = set[str](), [*_arguments(function)]
    while names:
        fixture = names.pop()
        if fixture not in used:
            used.add(fixture)
            # A fixture may stand on another of its own name.
            names += defined.get(fixture, ())
    for fixture, residency in FIXTURES.items():
        if fixture in used:
            return frozenset({residency})
    named = {node.id for node in ast.walk(module) if isinstance(node, ast.Name)}
    started = {residency for option, residency in OPTIONS.items() if option in named}
    return frozenset(started) or BOTH


@cache
def _shared_fixtures(root: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in sorted((root / "tests" / "support").glob("fix_*.py")):
        found |= _fixtures(ast.parse(path.read_text(encoding="utf-8")))
    return found


def _fixtures(module: ast.Module) -> dict[str, list[str]]:
    """Return the functions of a module with what they are given; fixtures are among them."""
    return {
        node.name: [*_arguments(node)] for node in module.body if isinstance(node, ast.FunctionDef)
    }


def _arguments(function: ast.FunctionDef) -> Iterable[str]:
    return (argument.arg for argument in function.args.args)


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
