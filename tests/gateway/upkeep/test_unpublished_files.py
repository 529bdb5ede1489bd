"""What upkeep cannot publish is removed, unless nobody knows whether it is there."""

from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

import pytest

from catalog.errors import CatalogUnavailableError, GatewayError, UnknownOutcomeError
from catalog.hot import resident_upkeep
from pgwire_gateway.config import Config
from pgwire_gateway.spark.compactor import Compaction
from pgwire_gateway.spark.statements import RunningStatement
from pgwire_gateway.upkeep.cold_tables import ColdTables
from pgwire_gateway.upkeep.tails import Tails

WRITTEN = Compaction((), (7,), 1, 0)
SNAPSHOT = SimpleNamespace(table=SimpleNamespace(relid=1), state="1_1")

OVERTAKEN = GatewayError("could not replace segments", sqlstate="40001")


class Session:
    def __init__(self, error: GatewayError | None) -> None:
        self.error = error

    def begin(self) -> None: ...

    def rollback(self) -> None: ...

    def replace(self, *_: object, **__: object) -> None: ...

    def commit(self) -> None:
        if self.error is not None:
            raise self.error


@pytest.fixture
def discarded(monkeypatch: pytest.MonkeyPatch) -> list[Compaction]:
    monkeypatch.setattr(resident_upkeep, "seize", lambda *_: None)
    return []


@pytest.mark.parametrize(
    ("error", "is_removed"),
    [
        (None, False),
        (OVERTAKEN, True),
        (CatalogUnavailableError("the catalog is gone"), False),
        (UnknownOutcomeError("the catalog went away during COMMIT"), False),
    ],
)
def test_of_a_tiered_table(
    discarded: list[Compaction], error: GatewayError | None, is_removed: bool
) -> None:
    compactor = cast("Any", SimpleNamespace(discard=discarded.append))
    tables = ColdTables(Config(), compactor)
    with (
        suppress(GatewayError),
        tables._swapped(cast("Any", Session(error)), cast("Any", SNAPSHOT), WRITTEN),
    ):
        pass
    assert discarded == [WRITTEN] * is_removed


@pytest.mark.parametrize(
    ("error", "is_removed"),
    [(OVERTAKEN, True), (CatalogUnavailableError("the catalog is gone"), False)],
)
def test_of_a_table_with_rows_in_postgresql(
    discarded: list[Compaction], error: GatewayError, is_removed: bool
) -> None:
    compactor = cast("Any", SimpleNamespace(discard=discarded.append))
    tails = Tails(compactor, RunningStatement())
    with suppress(GatewayError), tails._discarded(WRITTEN):
        raise error
    assert discarded == [WRITTEN] * is_removed
