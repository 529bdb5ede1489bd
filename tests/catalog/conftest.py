from collections.abc import Iterator
from functools import partial

import pytest

from catalog.api import Catalog
from catalog.hot.thawing import Thawing
from pgwire_gateway.upkeep.file_readers import FileReaders
from pgwire_gateway.upkeep.lanes import Lanes, Room
from tests.support.fix_catalog import (
    PATIENCE_S,
    Client,
    catalog,
    client,
    connect,
    database,
    inspector,
    other,
    pristine_database,
    reader,
)

__all__ = [
    "catalog",
    "client",
    "connect",
    "database",
    "inspector",
    "lanes",
    "other",
    "pristine_database",
    "reader",
]


@pytest.fixture
def administrator(catalog: Catalog, database: str) -> Iterator[Client]:
    """Yield the gateway's own session with the test's database."""
    opened = Client(catalog.admin(database))
    opened.run("SET search_path = public")
    yield opened
    opened.session.close()


@pytest.fixture
def thawing(catalog: Catalog, database: str) -> Thawing:
    """Return what makes rows of the test's database hot."""
    return catalog.thawing(database)


@pytest.fixture
def lanes(catalog, database, monkeypatch) -> Iterator[Lanes]:
    """Where upkeep looks after the tables of the test's database, and waits for that."""
    monkeypatch.setattr("pgwire_gateway.upkeep.lanes.PATIENCE_S", PATIENCE_S)
    made = Lanes(database, partial(catalog.admin, database), FileReaders(), Room(), 0.0)
    yield made
    made.rest()
