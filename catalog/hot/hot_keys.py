"""Hot keys: keys of a tiered table that the catalog table answers for, made so row by row.

A client's session announces what it is about to write (``catalog/sql/functions/hot_keys.sql``); the
gateway's own connections make keys hot, and commit at once (:mod:`.thawing`).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from catalog.bookkeeping import calls as bookkeeping
from catalog.bookkeeping.calls import Call, array
from catalog.bookkeeping.tail import encode_rows
from catalog.hot.expected_keys import Key
from catalog.model import TableSnapshot

Row = Sequence[str | None]


class Way(Enum):
    """How the keys that a statement writes are known."""

    KEYS = "keys"
    """Before it runs."""
    INSERT = "insert"
    """Afterwards: it inserts rows, and does nothing else."""


class Thawed(Enum):
    """What became of keys that were to be hot."""

    DONE = "done"
    """They are."""
    COLD = "cold"
    """None can be now."""
    STALE = "stale"
    """A row was not what had been read any more."""
    UNFIT = "unfit"
    """One of the rows does not satisfy a constraint."""
    BUSY = "busy"
    """A lock could not be had in time."""


@dataclass(frozen=True, slots=True)
class Announcement:
    """What a session learns when it announces a write of hot rows."""

    hot: bool
    """Whether the table may have hot rows; nothing else is told where not."""
    by_snapshot: bool = False
    """Whether that is because the transaction reads by one snapshot."""
    is_full: bool = False
    """Whether it is because too many are hot for more of them."""
    never: bool = False
    """Whether that is because of the table's key."""
    heats: int = 0
    """How often the table has begun to have hot rows."""
    cold: frozenset[Key] = frozenset()
    """Those of the keys that are to be looked up."""
    held: frozenset[Key] = frozenset()
    """Those that are not hot, but that the catalog table has a row of."""
    thaw_rows: int | None = None
    """How many rows a condition may make hot; None for what the server says."""
    own: bool = False
    """Whether the transaction has to make keys hot itself, as it reads by one snapshot."""
    unkeyed: bool = False
    """Whether the table has no key: nothing but new rows is hot."""
    new: bool = False
    """Whether that snapshot shows the table as it was before it could have hot rows."""
    mark: int = 0
    """Microseconds since 1970: versions that the statement writes are not older."""

    @property
    def is_complete(self) -> bool:
        """Return whether all keys are hot."""
        return not self.cold and not self.held


@dataclass(frozen=True, slots=True)
class Reading:
    """When rows were read that are to be hot."""

    heats: int
    """How often their table had begun to have hot rows."""
    epoch: int
    """How often row versions had left its tail."""
    seen: str
    """PostgreSQL's text of the snapshot."""

    @classmethod
    def of(cls, heats: int, snapshot: TableSnapshot) -> "Reading":
        """Return that of a snapshot of a table with hot rows."""
        if snapshot.seen is None:
            raise ValueError(snapshot.state)
        return cls(heats, int(snapshot.state.partition("_")[0]), snapshot.seen)


@dataclass(frozen=True, slots=True)
class Writing:
    """What a statement is going to do with hot rows of a table."""

    relid: int
    keys: tuple[Key, ...] | None = None
    """All keys it can touch; None for an INSERT, which brings its own."""
    locks_rows: bool = False
    """Whether it only locks rows."""
    draws: bool = False
    """Whether it may insert rows with other keys, which are searched when they are there."""
    heats: int | None = None
    """How often the table had begun to have hot rows when the statement's were found to be hot."""
    own: bool = False
    """Whether a transaction that reads by one snapshot may make keys hot itself."""
    beside: tuple[int, ...] = ()
    """Further tables that the statement is announced for: leaves of one partitioned table may all
    get rows."""
    waits: bool = True
    """Whether it waits for rows that others have locked: neither NOWAIT nor SKIP LOCKED."""

    def announced(self, *, strict: bool, searched: bool = False) -> Call:
        """Return the call that announces it.

        Args:
            strict: It fails unless all rows are hot.
            searched: Rows are to be made hot that are still to be found.
        """
        mode = b"ROW SHARE" if self.locks_rows else b"ROW EXCLUSIVE"
        way = Way.INSERT if self.keys is None or self.draws else Way.KEYS
        encoded = None if self.keys is None else json.dumps(self.keys).encode()
        heats = None if self.heats is None else _number(self.heats)
        flags = (_flag(strict), heats, _flag(searched), _flag(self.own))
        how = (_flag(self.waits), way.value.encode(), encoded, *flags, array(self.beside))
        return bookkeeping.ANNOUNCE, (_number(self.relid), mode, *how)


def announced(answer: bytes) -> Announcement:
    """Return what the answer of that call tells."""
    told = json.loads(answer)
    if not told["hot"]:
        return Announcement(
            hot=False,
            by_snapshot=told["snapshots"],
            is_full=told.get("full", False),
            never=told.get("never", False),
            own=told.get("own", False),
            unkeyed=told.get("unkeyed", False),
        )
    cold, held = (frozenset(map(tuple, told.get(name) or ())) for name in ("cold", "held"))
    return Announcement(
        hot=True,
        heats=told["heats"],
        cold=cold,
        held=held,
        thaw_rows=told.get("thaw_rows"),
        own=told.get("own", False),
        unkeyed=told.get("unkeyed", False),
        new=told.get("new", False),
        mark=told.get("mark") or 0,
    )


def searching(relid: int, mark: int | None) -> Call:
    """Return the call that tells which keys of written rows are still to be looked for.

    Args:
        relid: The table.
        mark: What was told when the INSERT was announced; None where the transaction has written
            nothing else.
    """
    return bookkeeping.UNSEARCHED, (_number(relid), None if mark is None else _number(mark))


def telling(*, is_on: bool) -> Call:
    """Return the call from which on rows that are proposed for insertion are told, or not."""
    return bookkeeping.TELL_PROPOSED, (_flag(is_on),)


@dataclass(frozen=True, slots=True)
class Proposed:
    """A row that a statement has proposed for a table with hot rows, in transfer forms."""

    relid: int
    key: tuple[Any, ...]
    values: tuple[list[Any] | None, ...]
    """Its value of each unique key of the table, None where it has none."""


def proposed(told: str) -> Proposed | None:
    """Return what a message tells of such a row; None where it tells something else."""
    try:
        found = json.loads(told)
        return Proposed(found["relid"], tuple(found["key"]), tuple(found["values"]))
    except (ValueError, KeyError, TypeError):
        # Code of users can say what looks like it.
        return None


def heating(relid: int, present: Sequence[Row], absent: Sequence[Row]) -> Call:
    """Return the call by which a transaction that reads by one snapshot makes keys hot itself.

    Others who have made one hot since that snapshot fail it (40001).

    Args:
        relid: The table, whose write has been announced.
        present: Their rows: PostgreSQL's text of every live column in attribute-number order.
        absent: The same for keys without a row to be put there, whose other columns are None.
    """
    rows = (encode_rows(present) or b"[]", encode_rows(absent) or b"[]")
    return bookkeeping.HEAT_KEYS, (_number(relid), *rows)


def heating_unwaited(relid: int, present: Sequence[Row], *, skips: bool) -> Call:
    """Return the call that does so for rows that are locked, but not waited for.

    Args:
        relid: The table, whose write has been announced.
        present: The rows, as in `heating`.
        skips: Whether those that others are making hot are left out; else they fail it (55P03).
    """
    return bookkeeping.HEAT_UNWAITED, (_number(relid), encode_rows(present) or b"[]", _flag(skips))


def looking_for_locks(relid: int) -> Call:
    """Return the call that tells which rows are locked that a transaction has made hot itself."""
    return bookkeeping.LOCKED_KEYS, (_number(relid),)


@dataclass(frozen=True, slots=True)
class Locked:
    """Rows that a transaction has made hot itself."""

    keys: frozenset[Key]
    """Those that it has locked."""
    others: bool
    """Whether there are others."""


def locked(answer: bytes) -> Locked:
    """Return what the answer of that call tells."""
    told = json.loads(answer)
    return Locked(frozenset(map(tuple, told["keys"])), told["others"])


def written_since(relid: int, reading: Reading) -> Call:
    """Return the call that tells whether others have written a table since it was read."""
    values = (_number(relid), reading.seen.encode(), _number(reading.epoch))
    return bookkeeping.WRITTEN_SINCE, values


def passed(relid: int, ahead: "Ahead") -> Call:
    """Return the call that tells whether a query may have got beyond rows that it locks in turn."""
    values = (_number(relid), _number(ahead.heats), json.dumps(ahead.keys).encode())
    return bookkeeping.PASSED, values


def is_written(answer: bytes) -> bool:
    """Return what the answer of one of these calls tells: what was found does not do any more."""
    return bool(json.loads(answer))


@dataclass(frozen=True, slots=True)
class Unsearched:
    """What has to be looked for in the journal when rows have been written to hot ones."""

    keys: list[tuple[Any, ...]]
    """Keys of rows that were inserted, in transfer forms."""
    mark: int
    """The oldest version of the rows that have them."""
    values: list[list[list[Any]]]
    """For each unique key of the table, values that were written, in transfer forms."""


def unsearched(answer: bytes) -> Unsearched:
    """Return what the answer of that call tells."""
    told = json.loads(answer)
    return Unsearched([tuple(key) for key in told["keys"]], told["mark"] or 0, told["values"])


@dataclass(frozen=True, slots=True)
class Ahead:
    """Some of the first rows of a queue, all of which are hot."""

    heats: int
    """How often their table had begun to have hot rows."""
    keys: tuple[Key, ...]


def _flag(value: bool) -> bytes:
    return b"t" if value else b"f"


def _number(value: int) -> bytes:
    return str(value).encode()
