"""Analyse statements by preparing them on PostgreSQL: types, names, errors and the parse tree.

The tree comes as a LOG message of the server, which is asked for just around the Parse message.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from psycopg.pq.abc import PGresult

from catalog.backend import Backend
from catalog.bookkeeping import Bookkeeping
from catalog.results import Analysis, ResultColumn
from catalog.steps import Describe, DescribePortal, Prepare, Step

TREE_MESSAGE: Final = "rewritten parse tree:"

_UTILITY: Final = "QUERY :commandType 6"
"""CMD_UTILITY of PostgreSQL's nodes.h."""

# Local to the transaction, and undone at once: a client's transaction must not see the difference.
_LISTEN: Final = (
    "SELECT set_config('pg_journal.messages', current_setting('client_min_messages'), true),"
    " set_config('client_min_messages', 'log', true),"
    " set_config('debug_print_rewritten', 'on', true)"
)
_UNLISTEN: Final = (
    "SELECT set_config('debug_print_rewritten', 'off', true),"
    " set_config('client_min_messages', current_setting('pg_journal.messages'), true)"
)


def analyse(  # noqa: PLR0913 - what Parse takes, and where to
    backend: Backend,
    calls: Bookkeeping,
    name: str,
    sql: str,
    parameter_oids: Sequence[int],
    *,
    tree: bool,
) -> Analysis:
    """Prepare `sql` under `name` and return what PostgreSQL found out about it.

    Asking for the `tree` begins the snapshot of a transaction.
    """
    own: list[Step] = [Prepare(name, sql, parameter_oids), Describe(name)]
    if not tree or backend.transaction_status == "E":
        # In a failed one only its end can be prepared now, and settings cannot be changed.
        return _analysis(backend, backend.run_all(own)[-1], None)
    before = calls.prepared_steps("pgwire_listen", _LISTEN)
    after = calls.prepared_steps("pgwire_unlisten", _UNLISTEN)
    trees: list[str] = []
    relay = backend.on_notice

    def collect(fields: Mapping[str, str]) -> None:
        if fields.get("M") == TREE_MESSAGE:
            trees.append(fields.get("D", ""))
        elif fields.get("V") != "LOG":
            relay(fields)

    backend.on_notice = collect
    try:
        results = calls.run_all([*before, *own, *after])
    finally:
        backend.on_notice = relay
    found = trees[0] if trees else None
    if found is not None and _UTILITY in found[:40]:
        found = None
    return _analysis(backend, results[len(before) + 1], found)


def describe(backend: Backend, name: str) -> Analysis:
    """Describe a prepared statement, without its tree."""
    return _analysis(backend, backend.run(Describe(name)), None)


def describe_portal(backend: Backend, name: str) -> tuple[tuple[ResultColumn, ...], int]:
    """Describe a portal of the backend's own: its columns, and the format code of the rows."""
    result = backend.run(DescribePortal(name))
    return backend.columns(result) or (), result.fformat(0) if result.nfields else 0


def _analysis(backend: Backend, result: PGresult, tree: str | None) -> Analysis:
    return Analysis(
        parameter_oids=tuple(result.param_type(i) for i in range(result.nparams)),
        columns=backend.columns(result) or None,
        tree=tree,
    )
