"""Analysis of statements in a transaction block that leaves none of its locks.

PostgreSQL locks a table as writers do when it analyses a write, and keeps that to the end of the
transaction. Transactions that hold it, and then have to keep writers out, or wait for whoever does,
would wait for each other.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from catalog.connections import CatalogSession
from catalog.results import Basis, RelationKind
from catalog.statements import Statement, StatementKind
from pgwire_gateway.session.forced import SPARK_EXECUTORS

SAVEPOINT: Final = "pgwire_unlocked"

_WRITES: Final = frozenset(
    {StatementKind.INSERT, StatementKind.UPDATE, StatementKind.DELETE, StatementKind.MERGE}
)
_CHANGES: Final = frozenset({StatementKind.UPDATE, StatementKind.DELETE})
_LOCKING: Final = re.compile(
    r"\b(FOR\s+(NO|KEY|UPDATE|SHARE)|INSERT|UPDATE|DELETE|MERGE)\b", re.IGNORECASE
)
"""What is in the text of a query that locks rows, or writes in WITH."""

_OIDS: Final = re.compile(r"\{([0-9,NUL]*)\}$")
_MAY_BE_TIERED: Final = frozenset({RelationKind.JOURNALED, RelationKind.JOURNAL, RelationKind.VIEW})


@contextmanager
def unlocked(catalog: CatalogSession, statement: Statement, basis: Basis | None) -> Iterator[None]:
    """Release what the analysis of a write of tiered tables locks in an open transaction.

    Also that of a change of resident tables which Spark may compute.
    """
    if catalog.transaction_status != "T" or basis is None or not _locks(catalog, statement, basis):
        yield
        return
    catalog.savepoint(SAVEPOINT)
    yield
    catalog.abandon(SAVEPOINT)


def _locks(catalog: CatalogSession, statement: Statement, basis: Basis) -> bool:
    if statement.kind in _CHANGES and basis.executor in SPARK_EXECUTORS:
        return True
    writes = statement.kind in _WRITES
    if not writes and not _LOCKING.search(statement.text):
        return False
    found = _OIDS.search(basis.resolution)
    relids = [int(oid) for oid in found[1].split(",") if oid.isdigit()] if found else []
    relations = catalog.relations(relids, definitions=basis.definitions)
    return any(relation.kind in _MAY_BE_TIERED for relation in relations.values())
