"""What a client's session asks about residency: loads, code, wishes, names of journals."""

import json
from collections.abc import Sequence
from enum import Enum

from catalog.bookkeeping import calls as bookkeeping
from catalog.bookkeeping.calls import array
from catalog.session.connections import CatalogSession


def check_body(session: CatalogSession, body: str) -> None:
    """Refuse code about to run that may reach a tiered table, whose rows it would not find.

    Raises:
        CatalogError: 0A000.
    """
    session.call(bookkeeping.CHECK_BODY, body.encode("utf-8", "surrogateescape"))


def is_loadable(session: CatalogSession, relid: int) -> bool:
    """Return whether a table is an empty resident one that a large load could make tiered."""
    return bool(json.loads(session.call(bookkeeping.IS_LOADABLE, _oid(relid))))


class Loading(Enum):
    """What became of a table that was to be loaded as a tiered one."""

    BEGUN = "begun"
    """It is tiered in this transaction."""
    RESIDENT = "resident"
    """It has to stay resident."""
    BUSY = "busy"
    """Others are using it, or code is running that may come to it."""


def begin_load(session: CatalogSession, relid: int) -> Loading:
    """Make such a table tiered for the load of this transaction, where that can be."""
    return Loading(session.call(bookkeeping.BEGIN_LOAD, _oid(relid)).decode())


def reserve_identities(session: CatalogSession, relid: int, blocks: int) -> int:
    """Take blocks of 2^32 row identities of a table without key; return the number of the first."""
    return int(session.call(bookkeeping.RESERVE_IDENTITIES, _oid(relid), str(blocks).encode()))


def ask(session: CatalogSession, relid: int, residency: str) -> None:
    """Let a table be resident ``auto``, ``always`` or ``never``.

    Raises:
        CatalogError: 42501 for others than the owner, 22023 for another word.
    """
    session.call(bookkeeping.ASK_RESIDENCY, _oid(relid), residency.encode())


def ask_bound(session: CatalogSession, relid: int, bound: str, value: str | None) -> None:
    """Give a table a bound of its own for hot rows; None for the server's.

    Raises:
        CatalogError: 42501 for others than the owner, 22023 for a value that is none.
    """
    encoded = None if value is None else value.encode()
    session.call(bookkeeping.ASK_BOUND, _oid(relid), bound.encode(), encoded)


def journals_named(session: CatalogSession, relids: Sequence[int]) -> dict[int, str]:
    """Return what stands for the journals of these tables, as SQL, where they have one."""
    answer = session.call(bookkeeping.JOURNALS_NAMED, array(relids))
    return {int(relid): name for relid, name in json.loads(answer).items()}


def _oid(relid: int) -> bytes:
    return str(relid).encode()
