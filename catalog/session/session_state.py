"""Settings and transaction of a catalog session, as PostgreSQL tells them."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from catalog.bookkeeping import moments
from catalog.bookkeeping.moments import TimeOuts
from catalog.errors import CatalogError
from catalog.pg.types import TEXT
from catalog.session.connections import CatalogSession

READ_COMMITTED: Final = "read committed"
SERIALIZABLE: Final = "serializable"


def is_set(session: CatalogSession, setting: str) -> bool:
    """Return whether a setting that PostgreSQL does not know itself has a value."""
    result = session.execute_parameters(
        "SELECT pg_catalog.current_setting($1, true) IS NULL",
        [setting.encode()],
        parameter_oids=[TEXT],
    )
    return [row[0] for row in result.rows] == [b"f"]


def has_cursor(session: CatalogSession, name: str) -> bool:
    """Return whether PostgreSQL has a cursor of a name in the session."""
    result = session.execute_parameters(
        "SELECT FROM pg_catalog.pg_cursors WHERE name = $1",
        [name.encode("utf-8", "surrogateescape")],
        parameter_oids=[TEXT],
        is_own=True,
    )
    return bool(list(result.rows))


def is_read_only(session: CatalogSession) -> bool:
    """Return whether the transaction is a read-only one."""
    return _setting(session, "transaction_read_only") == b"on"


@dataclass(frozen=True, slots=True)
class Isolation:
    """What transactions of a session are where nothing is said about it."""

    name: str
    is_read_only: bool


def begin_steady(session: CatalogSession) -> Isolation:
    """Begin a transaction that may make temporary tables, and whose statements see one moment.

    The answer is what it would have been.
    """
    session.transaction.begin()
    # SHOW takes no snapshot, after which neither could be changed any more.
    isolation, read_only = (
        (next(iter(session.execute(f"SHOW transaction_{what}").rows))[0] or b"").decode()
        for what in ("isolation", "read_only")
    )
    if isolation == READ_COMMITTED:
        _run(session, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    if read_only == "on":
        _run(session, "SET TRANSACTION READ WRITE")
    return Isolation(isolation, read_only == "on")


def make_read_only(session: CatalogSession) -> None:
    """Let the transaction write nothing from now on."""
    _run(session, "SET TRANSACTION READ ONLY")


def _run(session: CatalogSession, command: str) -> None:
    for _ in session.execute(command).rows:
        pass


def keeps_snapshot(session: CatalogSession) -> bool:
    """Return whether all statements of the transaction see the same moment."""
    return _setting(session, "transaction_isolation") in {b"repeatable read", b"serializable"}


def reads_committed(session: CatalogSession) -> bool:
    """Return whether each statement of the transaction sees what was committed when it began."""
    return _setting(session, "transaction_isolation") == b"read committed"


def refuses_views(session: CatalogSession) -> bool:
    """Return whether PostgreSQL reads no views but its own, as programs that dump ask for."""
    return b"view" in _setting(session, "restrict_nonsystem_relation_kind")


def time_outs(session: CatalogSession) -> TimeOuts:
    """Return what limits the session."""
    (row,) = session.execute(moments.LIMITS.sql).rows
    return moments.time_outs_of(row)


def fail_transaction(session: CatalogSession) -> None:
    """Put an open transaction into its failed state, as any error of PostgreSQL's does."""
    with suppress(CatalogError):
        for _ in session.execute("FAILED").rows:
            pass


def _setting(session: CatalogSession, name: str) -> bytes:
    (row,) = session.execute(f"SHOW {name}").rows
    return row[0] or b""
