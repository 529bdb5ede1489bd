"""Analysis of statements in a transaction block that leaves none of its locks.

PostgreSQL locks a table as writers do when it analyses a write, and keeps that to the end of the
transaction. Transactions that hold it, and then have to keep writers out, or wait for whoever does,
would wait for each other.
"""

import re
from collections.abc import Sequence
from typing import Final

from catalog.bookkeeping.moments import TimeOuts
from catalog.results import Analysis, Basis, RelationKind
from catalog.session.connections import CatalogSession
from catalog.statements.splitting import Statement, StatementKind
from pgwire_gateway.planning.forced import SPARK_EXECUTORS

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


def analyse(
    catalog: CatalogSession,
    statement: Statement,
    parameter_oids: Sequence[int],
    prepared: str,
    names: Sequence[str],
) -> tuple[Basis, TimeOuts, Analysis]:
    """Analyse a query; return what this rests on, too, where it names these relations, as SQL.

    What limits the session is told besides.

    Released is what the analysis of a write of tiered tables locks in an open transaction, also
    that of a change of resident tables which Spark may compute.
    """
    if catalog.transaction_status != "T" or not _may_lock(statement):
        return catalog.analyses.analyse_named(names, statement.text, parameter_oids, name=prepared)
    basis, limits = catalog.observations.grounds(names)
    keeps_locks = not _locks(catalog, statement, basis)
    analysis = catalog.analyses.analyse(
        statement.text, parameter_oids, name=prepared, keeps_locks=keeps_locks
    )
    return basis, limits, analysis


def _may_lock(statement: Statement) -> bool:
    return statement.kind in _WRITES or _LOCKING.search(statement.text) is not None


def _locks(catalog: CatalogSession, statement: Statement, basis: Basis) -> bool:
    if statement.kind in _CHANGES and basis.executor in SPARK_EXECUTORS:
        return True
    found = _OIDS.search(basis.resolution)
    relids = [int(oid) for oid in found[1].split(",") if oid.isdigit()] if found else []
    relations = catalog.observations.relations(relids, definitions=basis.definitions)
    return any(relation.kind in _MAY_BE_TIERED for relation in relations.values())
