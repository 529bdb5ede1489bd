"""The rows of other tables that tell which keys of a tiered table a statement asks for.

    MERGE INTO t USING staging s ON t.id = s.id …

is run by PostgreSQL on the rows of ``t`` whose keys ``staging`` holds, which have to be hot before.
Of a temporary table nobody else changes rows. Those of a resident one may be others when the
statement runs, in READ COMMITTED: its snapshot is a later one. Whatever is committed until then is
in the tail of that table, or the tail has been written to files meanwhile. So it is looked at after
the statement: where it has keys that were not asked for, all is undone, and begun again. Who
writes a source too quickly for that has to wait in the end.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from catalog.bookkeeping import calls as bookkeeping
from catalog.bookkeeping.calls import Call
from catalog.errors import CatalogError, GatewayError
from catalog.pg import sqlstate
from catalog.results import Relation, RelationKind
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.state import ClientSession
from rewrite.needs.keys import Contents
from rewrite.needs.results import Refusal
from rewrite.needs.sources import Source

_SAVEPOINT: Final = "pgwire_attempt"


@dataclass(frozen=True, slots=True)
class _Mark:
    """What there was of a resident table when its rows were looked at."""

    source: Source
    seen: str
    """PostgreSQL's text of the snapshot."""
    epoch: int
    """How often row versions had left the tail."""

    def call(self) -> Call:
        """Return the call that tells which rows have come since."""
        columns = bookkeeping.array(self.source.columns)
        values = (_number(self.source.relid), columns, self.seen.encode(), _number(self.epoch))
        return bookkeeping.COME_SINCE, values


@dataclass(frozen=True, slots=True)
class SourceRows:
    """What the sources of a statement hold."""

    contents: Contents = field(default_factory=dict)
    marks: tuple[_Mark, ...] = ()
    """Those that others may have changed meanwhile."""

    def calls(self) -> list[Call]:
        """Return the calls that tell afterwards what others have changed."""
        return [mark.call() for mark in self.marks]

    def prove(self, answers: Sequence[bytes]) -> bool:
        """Return whether a statement has seen no other values than these.

        Args:
            answers: What these calls have told after it.
        """
        return all(
            come is not None and {tuple(row) for row in come} <= set(self.contents[mark.source])
            for mark, come in zip(self.marks, map(json.loads, answers), strict=True)
        )


NO_ROWS: Final = SourceRows()


def readable(relations: Mapping[int, Relation]) -> frozenset[int]:
    """Return the relations whose rows can be looked at before a statement runs."""
    return frozenset(
        relid
        for relid, relation in relations.items()
        if relation.kind is RelationKind.RESIDENT or relation.is_temporary
    )


def read(call: Invocation, sources: frozenset[Source], most: int) -> SourceRows:
    """Return what sources hold now.

    Raises:
        Refusal: That are more rows than `most`, or cannot be looked at.
    """
    if not sources:
        return NO_ROWS
    contents: dict[Source, Sequence[Sequence[str | None]]] = {}
    marks: list[_Mark] = []
    for source in sorted(sources, key=lambda one: (one.relid, one.columns)):
        values = (_number(source.relid), bookkeeping.array(source.columns), _number(most))
        told: dict[str, Any] = json.loads(
            call.session.catalog.call(bookkeeping.SOURCE_ROWS, *values)
        )
        rows = told["rows"]
        if rows is None:
            raise Refusal("keys from a join with such a table are not supported")
        if len(rows) > most:
            raise Refusal(f"keys from a join with a table of more than {most} rows")
        contents[source] = [tuple(row) for row in rows]
        if told["epoch"] is not None:
            marks.append(_Mark(source, told["seen"], told["epoch"]))
    return SourceRows(contents, tuple(marks))


def hold(call: Invocation, sources: frozenset[Source]) -> None:
    """Keep others from writing sources until the transaction ends, which is open.

    PostgreSQL would not: this is for statements that could not follow their changes.
    """
    for relid in sorted({source.relid for source in sources}):
        call.session.catalog.call(bookkeeping.HOLD_SOURCE, _number(relid))


class Attempt:
    """A run of a statement that may have to be undone."""

    def __init__(self) -> None:
        self.kept = False
        self.error: CatalogError | None = None
        """Why it has failed."""

    def keep(self) -> None:
        """Let what the statement has done stand."""
        self.kept = True


@contextmanager
def undone(call: Invocation, *, began: bool) -> Iterator[Attempt]:
    """Undo what is done inside, unless it is kept; PostgreSQL's errors are told, not raised.

    Args:
        call: The statement.
        began: Whether the transaction is for this statement; then all of it is undone.
    """
    session, attempt = call.session, Attempt()
    if not began:
        session.catalog.transaction.savepoint(_SAVEPOINT)
    try:
        yield attempt
    except CatalogError as error:
        attempt.error = error
    except Refusal:
        # Another way is tried, which must not find what this one has done.
        _end(session, attempt, began=began)
        raise
    _end(session, attempt, began=began)


def _end(session: ClientSession, attempt: Attempt, *, began: bool) -> None:
    transaction = session.catalog.transaction
    if not began:
        leave = transaction.release if attempt.kept else transaction.abandon
        leave(_SAVEPOINT)
    elif not attempt.kept:
        transaction.rollback()
        session.transaction.settle()


@contextmanager
def doubted(call: Invocation, rows: SourceRows, *, began: bool) -> Iterator[None]:
    """Say of an error that it may come from other rows than these, where that is so (40001).

    Args:
        call: The statement.
        rows: What its sources were known to hold.
        began: Whether the transaction is for this statement, and has ended with the error.
    """
    try:
        yield
    except CatalogError as error:
        # In a transaction that has failed nothing can be looked at.
        is_refusal = rows.marks and error.sqlstate == sqlstate.FEATURE_NOT_SUPPORTED
        if is_refusal and not (began and is_proved(call, rows)):
            raise outdated() from error
        raise


def outdated() -> GatewayError:
    """Return the error for a statement whose sources change faster than it can follow (40001)."""
    return GatewayError(
        "could not serialize access due to concurrent update",
        sqlstate=sqlstate.SERIALIZATION_FAILURE,
    )


def is_proved(call: Invocation, rows: SourceRows) -> bool:
    """Return whether a statement that has failed had seen no other values than these."""
    catalog = call.session.catalog
    return rows.prove([catalog.call(function, *values) for function, values in rows.calls()])


def _number(value: int) -> bytes:
    return str(value).encode()
