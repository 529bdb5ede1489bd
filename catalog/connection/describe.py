"""Analyse statements by preparing them on PostgreSQL: types, names, errors and the parse tree.

The tree comes as a LOG message of the server, which is asked for just around the Parse message.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from psycopg.pq.abc import PGresult

from catalog.connection import unwaited
from catalog.connection.backend import Backend
from catalog.connection.steps import Describe, DescribePortal, Prepare, Query, Step
from catalog.pg.nodes import CmdType
from catalog.results import Analysis, ResultColumn

TREE_MESSAGE: Final = "rewritten parse tree:"

_LINE: Final = 78
"""Of how many bytes format_node_dump() makes lines at most, broken at blanks, escaped ones among
them; a longer word is broken in the middle, even of a character."""

_AFTER_NAMES: Final = (b":", b'"')
"""What follows a name, and the blank after it: a field, or another name of a list."""

_UTILITY: Final = f"QUERY :commandType {CmdType.UTILITY}"

# Local to the transaction, and undone at once: a client's transaction must not see the difference.
_LISTEN: Final = Query(
    "SELECT set_config('pg_journal.messages', current_setting('client_min_messages'), true),"
    " set_config('client_min_messages', 'log', true),"
    " set_config('debug_print_rewritten', 'on', true)",
    internal=True,
)
_UNLISTEN: Final = Query(
    "SELECT set_config('debug_print_rewritten', 'off', true),"
    " set_config('client_min_messages', current_setting('pg_journal.messages'), true)",
    internal=True,
)


def analyse(  # noqa: PLR0913 - what comes before, and after
    backend: Backend,
    name: str,
    sql: str,
    parameter_oids: Sequence[int],
    *,
    tree: bool,
    before: Sequence[Step] = (),
    after: Sequence[Step] = (),
) -> tuple[Analysis, list[PGresult]]:
    """Prepare `sql` under `name`; return what PostgreSQL found out, and what the others answered.

    Asking for the `tree` begins the snapshot of a transaction. Other steps go in the same trip.
    """
    own: list[Step] = [Prepare(name, sql, parameter_oids), Describe(name)]
    # In a failed one only its end can be prepared now, and settings cannot be changed.
    failed = backend.transaction_status == "E"
    is_unwaited = not failed and unwaited.is_unwaited(sql)
    if not tree or failed:
        results, others = _run(backend, before, own, after, is_unwaited=is_unwaited)
        return _analysis(backend, results[1], None), others
    trees: list[str] = []
    relay = backend.on_notice

    def collect(fields: Mapping[str, str]) -> None:
        if fields.get("M") == TREE_MESSAGE:
            trees.append(unbroken(fields.get("D", "")))
        else:
            relay(fields)

    backend.on_notice = collect
    own = [_LISTEN, *own, _UNLISTEN]
    try:
        results, others = _run(backend, before, own, after, is_unwaited=is_unwaited)
    finally:
        backend.on_notice = relay
    return _analysis(backend, results[2], _own(trees)), others


def _run(
    backend: Backend,
    before: Sequence[Step],
    own: Sequence[Step],
    after: Sequence[Step],
    *,
    is_unwaited: bool,
) -> tuple[list[PGresult], list[PGresult]]:
    """Return what the steps of an analysis have answered, and what the others have."""
    if is_unwaited:
        results = unwaited.run(backend, before, own, after)
    else:
        results = backend.run_all([*before, *own, *after])
    end = len(before) + len(own)
    return results[len(before) : end], results[: len(before)] + results[end:]


def unbroken(printed: str) -> str:
    """Return a tree as it was before PostgreSQL broke it into lines, to print it."""
    line, *others = printed.encode("utf-8", "surrogateescape").split(b"\n")
    found: list[bytes] = []
    for following in others:
        # A name may have a line break of its own, before which there was place for what follows.
        if line.endswith(b"\\") and _has_place(line, following):
            line += b"\n" + following
            continue
        is_word = len(line) == _LINE and b" " not in line
        found.append(line if is_word and not following.startswith(_AFTER_NAMES) else line + b" ")
        line = following
    return b"".join([*found, line]).decode("utf-8", "surrogateescape")


def _has_place(line: bytes, following: bytes) -> bool:
    """Return whether a line could have had the first word of what follows, too."""
    return len(line) + 1 + len(following.partition(b" ")[0]) <= _LINE


def _own(trees: list[str]) -> str | None:
    """Return the tree of our own statement, None where it is no query.

    The last query is what ends the printing, and ours came before. Clients that have trees printed
    get some before, and of the commands that follow.
    """
    while trees and _is_utility(trees[-1]):
        trees.pop()
    found = trees[-2] if len(trees) > 1 else None
    return None if found is None or _is_utility(found) else found


def _is_utility(tree: str) -> bool:
    return _UTILITY in tree[:40]


def describe(backend: Backend, name: str) -> Analysis:
    """Describe a prepared statement, without its tree."""
    return _analysis(backend, backend.run(Describe(name)), None)


def describe_portal(backend: Backend, name: str) -> tuple[tuple[ResultColumn, ...], int]:
    """Describe a portal of the backend's own: its columns, and the format code of the rows."""
    result = backend.run(DescribePortal(name))
    return backend.columns(result), result.fformat(0) if result.nfields else 0


def _analysis(backend: Backend, result: PGresult, tree: str | None) -> Analysis:
    return Analysis(
        parameter_oids=tuple(result.param_type(i) for i in range(result.nparams)),
        columns=backend.columns(result) or None,
        tree=tree,
    )
