"""What shows, in the round trip of a client's statement, that the plan of it still holds.

A proof is a select that follows the statement: definitions, search path and, while the session has
temporary relations, what its names stand for, are those it was planned by. It either tells, or ends
the transaction. The marks of definitions are random: nothing can be learned from them.
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from catalog.bookkeeping.calls import EXECUTOR, PLACE
from catalog.connection.relay import SYNC, message
from catalog.pg.types import BOOL, INT8, OID, TEXT
from catalog.results import Basis

# Names and operators are qualified: the session's search path is the client's.
_UNCHANGED: Final = (
    "COALESCE(pg_catalog.bit_xor(m.mark), 0) OPERATOR(pg_catalog.=) $1"
    " AND ($2 OR pg_catalog.current_setting('transaction_isolation')"
    " OPERATOR(pg_catalog.=) 'read committed')"
    f" AND {EXECUTOR} OPERATOR(pg_catalog.=) ''"
)
_PLACE: Final = f"{PLACE} OPERATOR(pg_catalog.=) $3"
_NAME: Final = (
    "COALESCE(pg_catalog.to_regclass(${})::pg_catalog.oid, 0::pg_catalog.oid)"
    " OPERATOR(pg_catalog.=) ${}"
)

_TELLING: Final = "SELECT {} FROM pg_journal.definition_marks m"
_RAISING: Final = (
    "SELECT CASE WHEN {} THEN true ELSE pg_journal.unproved() END"
    " FROM pg_journal.definition_marks m"
)

_ISOLATION: Final = ("pgwire_isolation", "SHOW transaction_isolation")


@dataclass(frozen=True, slots=True)
class Check:
    """A prepared statement of our own and the messages that execute it."""

    name: str
    """Name it is prepared under."""
    parse: bytes
    """The message that prepares it."""
    execute: bytes
    """The messages that bind and execute it."""
    expected: bytes
    """Their answer when all is well."""


@dataclass(frozen=True, slots=True)
class Checks:
    """What follows a client's messages in their trip."""

    each: tuple[Check, ...]
    """The checks, in their order."""
    names: frozenset[str]
    """Names they are prepared under."""
    execute: bytes
    """The messages that execute them all, and Sync."""
    expected: bytes
    """Their answers when all is well."""


def together(checks: Iterable[Checks]) -> Checks:
    """Return checks that follow each other."""
    return _checks(*(check for found in checks for check in found.each))


def _checks(*each: Check) -> Checks:
    return Checks(
        each,
        frozenset(check.name for check in each),
        b"".join(check.execute for check in each) + SYNC,
        b"".join(check.expected for check in each),
    )


NO_CHECKS: Final = _checks()


@dataclass(frozen=True, slots=True)
class Proof:
    """The two forms of one proof."""

    telling: Checks
    """Answers whether it holds."""
    raising: Checks
    """Fails with ``bookkeeping.OUTDATED`` when it does not hold."""


def proof_of(
    basis: Basis, names: Sequence[str], codec: str, *, lasting: bool = False
) -> Proof | None:
    """Return the proof of a basis that these names, as SQL, were part of.

    None where it cannot be written in the client's encoding. A ``lasting`` plan rests on nothing
    that others can change; the others are proved in READ COMMITTED only, as older snapshots do not
    show what others have changed.
    """
    if basis.executor:
        return None
    # The OIDs follow the schemas, if there are any.
    place, _, oids = basis.resolution.rpartition(" {") if names else (basis.resolution, "", "")
    values = [str(basis.definitions), "t" if lasting else "f", place]
    if "pg_temp_" in place:
        found = (oid if oid != "NULL" else "0" for oid in oids.rstrip("}").split(","))
        values += [value for pair in zip(names, found, strict=True) for value in pair]
    try:
        encoded = [value.encode(codec) for value in values]
    except UnicodeEncodeError:
        return None
    return Proof(_checks(_check(encoded, telling=True)), _checks(_check(encoded, telling=False)))


def _check(values: Sequence[bytes], *, telling: bool) -> Check:
    count = (len(values) - 3) // 2
    name = f"pgwire_{'proved' if telling else 'prove'}{count or ''}"
    parameters = range(4, 4 + 2 * count, 2)
    conditions = [_UNCHANGED, _PLACE, *(_NAME.format(n, n + 1) for n in parameters)]
    sql = (_TELLING if telling else _RAISING).format(" AND ".join(conditions))
    oids = (INT8, BOOL, TEXT, *(TEXT, OID) * count)
    answer = _answer(b"t", b"SELECT 1")
    return Check(name, _parse(name, sql, oids), _execute(name, values), answer)


def _answer(value: bytes, tag: bytes) -> bytes:
    row = struct.pack("!hi", 1, len(value)) + value
    return message(b"2", b"") + message(b"D", row) + message(b"C", tag + b"\0")


def _parse(name: str, sql: str, oids: Sequence[int]) -> bytes:
    types = struct.pack(f"!h{len(oids)}I", len(oids), *oids)
    return message(b"P", name.encode() + b"\0" + sql.encode() + b"\0" + types)


def _execute(name: str, values: Sequence[bytes]) -> bytes:
    parameters = b"".join(struct.pack("!i", len(value)) + value for value in values)
    count = struct.pack("!h", len(values))
    bind = b"\0" + name.encode() + b"\0\0\0" + count + parameters + b"\0\0"
    return message(b"B", bind) + message(b"E", b"\0\0\0\0\0")


READ_COMMITTED: Final = _checks(
    Check(
        _ISOLATION[0],
        _parse(*_ISOLATION, ()),
        _execute(_ISOLATION[0], ()),
        _answer(b"read committed", b"SHOW"),
    )
)
"""Expects this isolation level of a transaction, without taking its snapshot."""
