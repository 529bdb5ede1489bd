"""What upkeep cannot publish is removed, unless nobody knows whether it is there."""

from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

import pytest

from catalog.errors import CatalogUnavailableError, GatewayError, UnknownOutcomeError
from catalog.hot import resident_upkeep
from pgwire_gateway.config import Config
from pgwire_gateway.spark.compactor import Compaction, Compactor
from pgwire_gateway.upkeep.cold_tables import ColdTables

WRITTEN = Compaction((cast("Any", SimpleNamespace(path="5/1/base-0")),), (7,), 1, 0)
SNAPSHOT = SimpleNamespace(table=SimpleNamespace(relid=1), state="1_1")

ERRORS = pytest.mark.parametrize(
    ("error", "is_removed"),
    [
        (None, False),
        (GatewayError("could not replace segments", sqlstate="40001"), True),
        (CatalogUnavailableError("the catalog is gone"), False),
        (UnknownOutcomeError("the catalog went away during COMMIT"), False),
    ],
)


class Session:
    """One that fails when it is to commit."""

    def __init__(self, error: GatewayError | None) -> None:
        self.transaction = self.journals = self
        self.error = error
        self.rolled_back = False

    def begin(self) -> None: ...

    def rollback(self) -> None:
        self.rolled_back = True

    def replace(self, *_: object, **__: object) -> None: ...

    def commit(self) -> None:
        if self.error is not None:
            raise self.error


class Warehouse:
    """One that notes what is removed."""

    def __init__(self) -> None:
        self.removed: list[str] = []

    def remove(self, path: str) -> None:
        self.removed.append(path)


@pytest.fixture
def warehouse() -> Warehouse:
    return Warehouse()


@pytest.fixture
def compactor(warehouse: Warehouse) -> Compactor:
    return Compactor(cast("Any", None), cast("Any", SimpleNamespace(warehouse=warehouse)))


@ERRORS
def test_of_any_table(
    warehouse: Warehouse, compactor: Compactor, error: GatewayError | None, is_removed: bool
) -> None:
    with suppress(GatewayError), compactor.publishing(WRITTEN):
        Session(error).commit()
    assert warehouse.removed == ["5/1/base-0"] * is_removed


@ERRORS
def test_of_a_tiered_table(
    warehouse: Warehouse,
    compactor: Compactor,
    error: GatewayError | None,
    is_removed: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resident_upkeep, "seize", lambda *_: None)
    session = Session(error)
    tables = ColdTables(Config(), compactor)
    with (
        suppress(GatewayError),
        tables._swapped(cast("Any", session), cast("Any", SNAPSHOT), WRITTEN),
    ):
        pass
    assert warehouse.removed == ["5/1/base-0"] * is_removed
    assert session.rolled_back == (error is not None)
