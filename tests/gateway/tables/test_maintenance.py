"""VACUUM of a table whose rows upkeep moves meanwhile."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from catalog.errors import GatewayError, OutdatedPlanError
from catalog.pg import sqlstate
from catalog.results import RelationKind
from pgwire_gateway.hot.announcements import ATTEMPTS
from pgwire_gateway.spark.statements import RunningStatement
from pgwire_gateway.tables import maintenance

RELID = 4711


@dataclass
class Table:
    """A table that is somewhere else each time it is looked for; it notes what is done to it."""

    kinds: list[RelationKind]
    done: list[str] = field(default_factory=list)

    @property
    def kind(self) -> RelationKind:
        return self.kinds[0]

    def move(self) -> None:
        if len(self.kinds) > 1:
            del self.kinds[0]

    def relations(self, relids: Sequence[int]) -> dict[int, object]:
        (relid,) = relids
        found, tree = self.kind, None
        self.move()
        return {relid: SimpleNamespace(kind=found, tree=tree)}

    def compact_resident(self, *_: object, **__: object) -> bool:
        self.done.append("resident")
        return self.kind is RelationKind.RESIDENT

    def flush_large(self, *_: object, **__: object) -> None:
        """Find the tail to be small."""

    def compact_tiered(self, *_: object, **__: object) -> None:
        self.done.append("tiered")
        if self.kind is RelationKind.RESIDENT:
            raise OutdatedPlanError("the table is resident")


def vacuum(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    class NoWork:
        def __init__(self, *_: object) -> None: ...
        def __enter__(self) -> None: ...
        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr(maintenance, "compact", table.compact_tiered)
    monkeypatch.setattr(maintenance, "_compacting", NoWork)
    monkeypatch.setattr(maintenance, "_wait_ms", lambda *_, **__: 1)
    monkeypatch.setattr(maintenance, "_await_writer", lambda *_: None)
    monkeypatch.setattr(maintenance.upkeep, "wait_at_most", lambda *_, **__: None)
    monkeypatch.setattr(maintenance.names, "relation_oid", lambda *_: RELID)
    monkeypatch.setattr(maintenance.upkeep, "may_maintain", lambda *_: True)
    transaction = SimpleNamespace(
        open=False,
        begin_implicit=lambda: table.done.append("begin"),
        end_implicit=lambda: table.done.append("commit"),
        settle=lambda: table.done.append("settle"),
    )
    thawing = SimpleNamespace(is_warm=lambda _: False)
    services = SimpleNamespace(
        catalog=SimpleNamespace(thawing=lambda _: thawing),
        flusher=SimpleNamespace(
            compact=table.compact_resident,
            flush_large=table.flush_large,
            remove_files=lambda *_, **__: None,
        ),
    )
    session = SimpleNamespace(
        catalog=SimpleNamespace(observations=table),
        services=services,
        transaction=transaction,
        database="d",
        holds_rows=False,
    )
    manner = maintenance.Manner(is_full=True)
    maintenance.vacuum(cast("Any", session), [cast("Any", "t")], RunningStatement(), manner)


TIERED, RESIDENT = RelationKind.JOURNALED, RelationKind.RESIDENT


@pytest.mark.parametrize(
    ("kinds", "done"),
    [
        ([TIERED], ["begin", "tiered", "commit"]),
        ([RESIDENT], ["resident"]),
        # Looked at twice by VACUUM: whether it may, and where it is.
        ([TIERED, TIERED, RESIDENT], ["begin", "tiered", "settle", "resident"]),
        ([RESIDENT, RESIDENT, TIERED], ["resident", "begin", "tiered", "commit"]),
    ],
)
def test_it_is_compacted_where_its_rows_are(
    kinds: list[RelationKind], done: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(kinds)
    vacuum(table, monkeypatch)
    assert table.done == done


def test_one_that_never_rests_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table([RESIDENT])
    table.relations = lambda relids: {relids[0]: SimpleNamespace(kind=TIERED, tree=None)}  # type: ignore[method-assign]
    with pytest.raises(GatewayError) as caught:
        vacuum(table, monkeypatch)
    assert caught.value.sqlstate == sqlstate.SERIALIZATION_FAILURE
    assert table.done == ["begin", "tiered", "settle"] * ATTEMPTS
