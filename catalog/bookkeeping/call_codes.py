"""Codes that prove calls of the bookkeeping: each is good for one call of one session.

A code is seen by nobody but the function that it is for. Should it be all the same, it is worth
nothing: ``pg_journal.authorize`` takes it once, in this backend, for this function with these
arguments, and before any that was made after it.
"""

import hmac
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

from catalog.connection.backend import Backend
from catalog.connection.steps import Query
from catalog.errors import CatalogError

_BARE: Final = re.compile(rb'(?!null\Z)[^\s"\\{},]+', re.IGNORECASE)
"""Elements that PostgreSQL's text of an array has without quotes."""


def array_text(elements: Sequence[bytes | None]) -> bytes:
    r"""Return PostgreSQL's own text of an array of texts.

    >>> print(array_text([b"a", None, b"null", b"", b'"b c"']).decode())
    {a,NULL,"null","","\"b c\""}
    """
    return b"{" + b",".join(map(_element, elements)) + b"}"


def _element(value: bytes | None) -> bytes:
    if value is None:
        return b"NULL"
    if _BARE.fullmatch(value):
        return value
    return b'"' + value.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'


@dataclass(frozen=True, slots=True)
class CallCodes:
    """Makes the codes of one session's calls."""

    key: bytes
    """What only the gateway and the bookkeeping know."""
    process_id: int
    """Of the session's backend."""
    sequence: int
    """OID of the sequence that keeps the number of the last call."""
    numbers: Iterator[int]
    """Those of its calls, none of which an earlier session with this sequence had."""

    def code(self, function: str, arguments: Sequence[bytes | None]) -> bytes:
        """Return the code of the next call, which is to be of this function.

        Args:
            function: Its name in the bookkeeping.
            arguments: PostgreSQL's texts of them, in UTF-8.
        """
        place = b"%d %d" % (self.sequence, next(self.numbers))
        named = b"%d %b %b " % (self.process_id, place, function.encode())
        said = hmac.digest(self.key, named + array_text(arguments), "sha256")
        return b"%b %b" % (place, said.hex().encode())


def take(backend: Backend, key: bytes) -> CallCodes | None:
    """Return what makes the codes of a session that has just begun; None if it cannot number calls.

    A server that went down in the middle has forgotten its sequences: numbers begin with the time,
    in microseconds.
    """
    try:
        # Whatever transactions are by default.
        begin = Query("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", internal=True)
        _, result, _ = backend.run_all([begin, _TAKE, Query("COMMIT", internal=True)])
    except CatalogError:
        if backend.transaction_status != "I":
            backend.run(Query("ROLLBACK", internal=True))
        raise
    sequence, last = (result.get_value(0, column) for column in range(2))
    if sequence is None:
        return None
    numbers = count(max(int(last or b"0") + 1, time.time_ns() // 1000))
    return CallCodes(key, backend.process_id, int(sequence), numbers)


_TAKE: Final = Query(
    "SELECT s.sequence, s.last_number FROM pg_journal.take_series() s", internal=True
)
