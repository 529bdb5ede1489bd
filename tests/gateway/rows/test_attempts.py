"""Runs of statements that are undone."""

from types import SimpleNamespace

import pytest

from catalog.errors import CatalogError
from pgwire_gateway.rows import source_rows
from rewrite.needs.results import Refusal


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def call(said):
    return SimpleNamespace(
        session=SimpleNamespace(
            catalog=SimpleNamespace(
                transaction=SimpleNamespace(
                    savepoint=lambda _: said.append("savepoint"),
                    abandon=lambda _: said.append("abandoned"),
                    release=lambda _: said.append("released"),
                    rollback=lambda: said.append("rolled back"),
                )
            ),
            transaction=SimpleNamespace(settle=lambda: said.append("settled")),
        )
    )


UNDONE = ["savepoint", "abandoned"]


def test_what_is_kept_stays(call, said):
    with source_rows.undone(call, began=False) as attempt:
        attempt.keep()
    with source_rows.undone(call, began=True) as attempt:
        attempt.keep()
    assert said == ["savepoint", "released"]


@pytest.mark.parametrize("error", [None, CatalogError("no", sqlstate="23505")])
def test_all_else_is_undone(call, said, error):
    for began in (False, True):
        with source_rows.undone(call, began=began) as attempt:
            if error is not None:
                raise error
        assert attempt.error is error
    assert said == [*UNDONE, "rolled back", "settled"]


def test_so_it_is_where_another_way_is_tried(call, said):
    for began in (False, True):
        with pytest.raises(Refusal), source_rows.undone(call, began=began):
            raise Refusal("rows of no key")
    assert said == [*UNDONE, "rolled back", "settled"]
