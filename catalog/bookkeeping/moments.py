"""What a statement depends on of its session when it begins, besides the tables it touches.

Asked beside their snapshots, in the same round trip. Knows nothing of journals.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from psycopg.pq.abc import PGresult

from catalog.bookkeeping.call_codes import array_text
from catalog.bookkeeping.calls import EXECUTOR, TIME_OUTS, basis_of
from catalog.connection.steps import Query
from catalog.pg.types import TEXT_ARRAY
from catalog.results import Basis, SnapshotRequest, SnapshotResult

LIMITS: Final = Query(f"SELECT {TIME_OUTS}", internal=True)
"""Asks for what limits the session alone."""

# In binary, and names in UTF-8, whatever the client's encoding and styles are.
_MOMENT: Final = (
    "SELECT pg_catalog.convert_to(pg_journal.named_resolution($1), 'UTF8'),"
    f" pg_catalog.convert_to({EXECUTOR}, 'UTF8'), {TIME_OUTS},"
    " pg_catalog.current_setting('bytea_output'),"
    " pg_catalog.current_setting('extra_float_digits'),"
    " pg_catalog.current_setting('transaction_isolation'),"
    " pg_catalog.convert_to(current_user, 'UTF8'), pg_catalog.convert_to(session_user, 'UTF8'),"
    " pg_catalog.convert_to(pg_catalog.current_database(), 'UTF8'),"
    " pg_catalog.convert_to(pg_catalog.current_schema(), 'UTF8')"
)


@dataclass(frozen=True, slots=True)
class TimeOuts:
    """What limits the session, in seconds; 0 when there is no limit."""

    statement_s: float
    idle_s: float
    """The shorter one of those of idle sessions and of idle transactions."""


@dataclass(frozen=True, slots=True)
class Names:
    """Whom and what PostgreSQL's functions of these names tell."""

    current_user: str
    session_user: str
    current_database: str
    current_schema: str | None


@dataclass(frozen=True, slots=True)
class Moment:
    """The session's settings, and what names stand for, at one time."""

    resolution: str
    """As in ``Basis``, like the next one."""
    executor: str
    time_outs: TimeOuts
    bytea_output: str
    extra_float_digits: int
    keeps_snapshot: bool
    """Whether all statements of the transaction see the same moment."""
    names: Names

    def agrees(self, basis: Basis) -> bool:
        """Return whether a plan rests on this, definitions left aside."""
        return self.resolution == basis.resolution and self.executor == basis.executor


@dataclass(frozen=True, slots=True)
class Seen:
    """What a statement that only reads depends on, as it was when this was asked for."""

    requests: Sequence[SnapshotRequest]
    """The tables that were asked for."""
    moment: Moment
    result: SnapshotResult


def step(names: Sequence[bytes]) -> Query:
    """Return what asks for it, and for what these names stand for, as SQL."""
    values = (array_text(names),)
    return Query(_MOMENT, values, (TEXT_ARRAY,), result_format=1, internal=True)


def moment_of(result: PGresult) -> Moment:
    """Return the answer of the step."""
    texts = [result.get_value(0, column) for column in range(result.nfields)]
    resolution, executor, *rest = texts
    time_outs, (output, digits, isolation, *named) = rest[:3], rest[3:]
    user, session, database, schema = map(_text, named)
    return Moment(
        resolution=_text(resolution) or "",
        executor=_text(executor) or "",
        time_outs=time_outs_of(time_outs),
        bytea_output=(output or b"hex").decode(),
        extra_float_digits=int(digits or b"1"),
        keeps_snapshot=isolation in _KEEPING,
        names=Names(user or "", session or "", database or "", schema),
    )


def grounds_of(result: PGresult) -> tuple[Basis, TimeOuts]:
    """Return the answer of the steps that ask for a basis."""
    return basis_of(result), time_outs_of([result.get_value(0, place) for place in range(3, 6)])


def limits_of(result: PGresult) -> TimeOuts:
    """Return the answer of the step that asks for what limits the session alone."""
    return time_outs_of([result.get_value(0, place) for place in range(3)])


def time_outs_of(values: Sequence[bytes | None]) -> TimeOuts:
    """Return what limits the session, as it was told."""
    statement_s, *idle_s = (float(value or b"0") for value in values)
    return TimeOuts(statement_s, min(filter(None, idle_s), default=0.0))


_KEEPING: Final = frozenset({b"repeatable read", b"serializable"})


def _text(told: bytes | None) -> str | None:
    return None if told is None else told.decode()
