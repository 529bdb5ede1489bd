"""Spark is reached through one Protocol; what is behind it stays in its two implementations."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.repository import PACKAGES, ROOT

SPARK = ROOT / "pgwire_gateway" / "spark"
INTERNALS, PUBLIC = SPARK / "internals", SPARK / "public"

LIBRARIES = frozenset({"py4j", "pyspark"})
JVM = frozenset(
    {"_gateway", "_jconf", "_jdf", "_jsc", "_jsparkSession", "_jvm", "_sc", "java", "jvm"}
)
"""Attributes by which the JVM behind a session, a frame or a context is reached."""

MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def imported(source: str) -> Iterator[str]:
    """Yield what a module imports, wherever in it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def libraries_of(source: str) -> set[str]:
    """Return those of Spark's libraries that a module imports."""
    return {name.partition(".")[0] for name in imported(source)} & LIBRARIES


def attributes(source: str) -> Iterator[tuple[str, str]]:
    """Yield names of attributes, after what they are taken of."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            yield ast.unparse(node.value), node.attr


def private(source: str) -> list[tuple[str, str]]:
    """Return private attributes of anything but objects of a module's own classes."""
    own = {"self", "cls", "other"}
    return [
        (of, name)
        for of, name in attributes(source)
        if name.startswith("_") and not name.startswith("__") and of not in own
    ]


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_sparks_libraries_are_imported_by_the_implementations_alone(path: Path):
    found = libraries_of(path.read_text(encoding="utf-8"))
    allowed = {"py4j"} if path.is_relative_to(INTERNALS) else set()
    allowed |= {"pyspark"} if path.is_relative_to(PUBLIC) else set()
    assert found <= allowed


@pytest.mark.parametrize(
    "path", [path for path in MODULES if not path.is_relative_to(INTERNALS)], ids=name_of
)
def test_nobody_else_reaches_into_the_jvm(path: Path):
    found = [(of, name) for of, name in attributes(path.read_text(encoding="utf-8"))]
    assert [(of, name) for of, name in found if name in JVM] == []


@pytest.mark.parametrize("path", sorted(PUBLIC.glob("*.py")), ids=name_of)
def test_the_public_implementation_takes_nothing_private(path: Path):
    assert private(path.read_text(encoding="utf-8")) == []


def test_both_implementations_are_looked_at():
    found = {path.parent for path in MODULES if libraries_of(path.read_text(encoding="utf-8"))}
    assert found == {INTERNALS, PUBLIC}


def test_what_is_looked_for_is_found():
    source = "def f(frame):\n    from pyspark.sql import Row\n    return frame._jdf.x, self._data"
    assert libraries_of(source) == {"pyspark"}
    assert [name for _, name in attributes(source) if name in JVM] == ["_jdf"]
    assert private(source) == [("frame", "_jdf")]
