"""Package initialisers hold a docstring and re-exports; code lives in modules with names."""

import ast

import pytest

from tests.support.repository import PACKAGES, ROOT

INITIALISERS = sorted(
    path for package in PACKAGES for path in (ROOT / package).rglob("__init__.py")
)


def unwelcome(source, package):
    """Return the line numbers of statements an initialiser must not hold."""
    return [
        statement.lineno
        for statement in ast.parse(source).body[1:]
        if not (is_export_list(statement) or is_re_export(statement, package))
    ]


def is_re_export(statement, package):
    return (
        isinstance(statement, ast.ImportFrom)
        and statement.level == 0
        and f"{statement.module}.".startswith(f"{package}.")
    )


def is_export_list(statement):
    return (
        isinstance(statement, ast.Assign)
        and [ast.unparse(target) for target in statement.targets] == ["__all__"]
        and isinstance(statement.value, ast.List | ast.Tuple)
        and all(isinstance(name, ast.Constant) for name in statement.value.elts)
    )


def package_of(path):
    return ".".join(path.parent.relative_to(ROOT).parts)


@pytest.mark.parametrize("path", INITIALISERS, ids=package_of)
def test_initialiser_holds_a_docstring_and_re_exports_only(path):
    source = path.read_text(encoding="utf-8")
    assert ast.get_docstring(ast.parse(source)), "no docstring"
    assert unwelcome(source, package_of(path)) == []


def test_every_package_is_looked_at():
    assert {package_of(path) for path in INITIALISERS} >= set(PACKAGES)


@pytest.mark.parametrize(
    "statement",
    [
        "import os",
        "from os import path",
        "from catalogue import model",
        "from . import model",
        "VERSION = 1",
        "def helper(): ...",
        "try:\n    from catalog.model import Column\nexcept ImportError:\n    pass",
        "__all__ = [name for name in dir()]",
    ],
)
def test_code_in_an_initialiser_is_found(statement):
    assert unwelcome(f'"""Docstring."""\n{statement}', "catalog") == [2]


@pytest.mark.parametrize(
    "statement",
    ["from catalog.model import Column", "from catalog import model", '__all__ = ["Column"]'],
)
def test_re_exports_are_welcome(statement):
    assert unwelcome(f'"""Docstring."""\n{statement}', "catalog") == []
