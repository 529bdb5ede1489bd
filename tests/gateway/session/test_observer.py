"""What a statement sees: tails that are held, completed by what has come since."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from catalog.errors import OutdatedPlanError
from catalog.model import JournalTable, TableSnapshot
from catalog.results import SnapshotResult
from pgwire_gateway.session.observer import Observer
from pgwire_gateway.wire_types.tails import StaleTailError

RELID = 16400

TABLE = JournalTable(RELID, "public", "t", (), (), None, 1, "5/16400")


def seen(definition: int) -> SnapshotResult:
    table = replace(TABLE, definition_version=definition)
    return SnapshotResult({RELID: TableSnapshot(table, "s", 1, (), 0)}, {}, definition, 0, 0)


@pytest.fixture
def observer() -> Callable[[SnapshotResult], Observer]:
    """An observer whose held tail is replaced while it fetches; takes what it sees then."""

    def made(again: SnapshotResult) -> Observer:
        fetched: list[Any] = []

        def complete(_: str, snapshot: TableSnapshot, *__: Any, **___: Any) -> TableSnapshot:
            fetched.append(snapshot)
            if len(fetched) == 1:
                raise StaleTailError
            return snapshot

        catalog = SimpleNamespace(
            thawing=lambda _: SimpleNamespace(is_warm=lambda _: False), snapshot=lambda _: again
        )
        tails = SimpleNamespace(complete=complete, known_state=lambda *_: "held")
        session: Any = SimpleNamespace(
            services=SimpleNamespace(tails=tails, catalog=catalog, compactor=None, config=None),
            transaction=SimpleNamespace(written=set()),
            database="d",
            catalog=catalog,
            running=None,
        )
        return Observer(session)

    return made


def test_a_tail_that_was_replaced_meanwhile_is_fetched_in_full(observer) -> None:
    found = observer(seen(1))
    observation = found.complete(found.requests([RELID]), seen(1))
    assert observation.tails[RELID].table.definition_version == 1


def test_a_table_that_was_altered_meanwhile_is_planned_again(observer) -> None:
    found = observer(seen(2))
    with pytest.raises(OutdatedPlanError):
        found.complete(found.requests([RELID]), seen(1))
