"""Examples in docstrings are true."""

import doctest
import importlib

import pytest

from tests.support.repository import PACKAGES, ROOT

PLACES = (*PACKAGES, "tests/support")
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for place in PLACES
    for path in (ROOT / place).rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_are_true(name: str) -> None:
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted
    assert not found.failed
