"""Prepared statements and portals, and what an executed statement gives back.

Rows come from a :class:`RowStream`, already encoded; a portal takes some of them at a time.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from typing import Protocol

from buenavista.core import BVType, QueryResult

from catalog.errors import GatewayError
from catalog.pg import sqlstate as codes
from pgwire_gateway.messages.row_data import FieldDescription
from pgwire_gateway.planning.plans import Plan
from pgwire_gateway.spark.statements import RunningStatement
from pgwire_gateway.wire_types.client_values import recoded


class RowStream(Protocol):
    """Encoded DataRow messages on their way to a client."""

    exhausted: bool
    """True when no row is left."""

    def take(self, limit: int) -> Iterator[tuple[bytes | memoryview, int]]:
        """Yield runs of DataRow messages with their numbers of rows; ``limit`` rows, 0 all."""

    def encode_in(self, client_encoding: str) -> None:
        """Send what is left to a client that has another encoding now; its name is PostgreSQL's."""

    def close(self) -> None:
        """Release what produces the rows; cancels work still going on."""


class NoRows:
    """The stream of a statement that returns none."""

    exhausted = True

    def take(self, limit: int) -> Iterator[tuple[bytes | memoryview, int]]:  # noqa: ARG002
        """Yield nothing."""
        return iter(())

    def encode_in(self, client_encoding: str) -> None:
        """Send nothing in any encoding."""

    def close(self) -> None:
        """Release nothing."""


@dataclass
class StatementResult(QueryResult):  # type: ignore[misc]
    """What one executed statement gives back: rows to take and the tag that ends them."""

    columns: tuple[FieldDescription, ...] | None
    """None when the statement returns no rows."""
    stream: RowStream
    tag: Callable[[int], str]
    """Command tag, given the number of rows taken by the last Execute."""
    prove: Callable[[], None] = lambda: None
    """Called after the last row: raises 40001 when the rows may not have been all."""

    def column(self, index: int) -> tuple[str, BVType]:
        """Return the name of a column; values are passed on encoded, so the type is unknown."""
        return (self.columns or ())[index].name, BVType.UNKNOWN

    def rows(self) -> Iterator[list[bytes | memoryview]]:
        """Yield runs of encoded rows."""
        return ([data] for data, _ in self.stream.take(0))

    def status(self) -> str:
        """Return the command tag of a statement without rows."""
        return self.tag(0)


@dataclass(frozen=True, slots=True)
class PreparedStatement:
    """A statement the client named, or the unnamed one; ``plan`` is None for an empty string."""

    name: str
    plan: Plan | None
    parse: bytes = b""
    """Text and types as in its Parse message, while the catalog does not hold it."""
    codec: str = "utf-8"
    """Python's name of the encoding of that text."""


PORTAL_NUMBERS = count(1)
"""Tell what came first, portals and savepoints of a session."""


class PortalState(Enum):
    """Where the execution of a portal stands."""

    READY = "ready"
    """Bound, not yet executed."""
    SUSPENDED = "suspended"
    """Executed, rows are left."""
    DONE = "done"
    """Executed to its end."""


@dataclass(frozen=True, slots=True)
class Motion:
    """What FETCH and MOVE do: they skip rows, then take some."""

    skipped: int
    taken: int | None
    """None: all that are left."""


@dataclass
class Portal:
    """A prepared statement with its parameters."""

    name: str
    statement: PreparedStatement
    parameters: tuple[bytes | None, ...] = ()
    parameter_formats: tuple[int, ...] = ()
    result_formats: tuple[int, ...] = ()
    """One code for each column, or none for text, or one for all."""
    state: PortalState = PortalState.READY
    result: StatementResult | None = field(default=None)
    running: RunningStatement | None = None
    """Its execution, which can be cancelled while more of its rows are computed."""
    number: int = field(default_factory=PORTAL_NUMBERS.__next__)
    taken: int = 0
    """How many of its rows have been taken."""
    unreadable: GatewayError | None = None
    """Why its parameters are not in the client's encoding."""

    @property
    def position(self) -> int:
        """How many rows have been taken; one more where it was asked for more than there are."""
        return self.taken + (self.state is PortalState.DONE)

    @property
    def is_before_first(self) -> bool:
        """Whether nothing has been asked for yet."""
        return self.state is PortalState.READY

    @property
    def holds_files(self) -> bool:
        """Whether rows that are left may be read from files."""
        return self.state is PortalState.SUSPENDED

    def motion(self, direction: str, count: int | None) -> Motion | None:
        """Return how rows are reached that lie ahead; None for the row it is on, or none.

        Args:
            direction: As in FETCH: forward, backward, absolute or relative.
            count: How many rows, or which one; None for all.

        Raises:
            GatewayError: 55000 where it would go back; 0A000 for a cursor that might have done so.
        """
        if direction == "backward" and count is not None:
            direction, count = "forward", -count
        match direction:
            case "forward" if count is None or count > 0:
                return Motion(0, count)
            case "relative" if count is not None and count > 0:
                return Motion(count - 1, 1)
            case "absolute" if count is not None and count > self.position:
                return Motion(count - self.position - 1, 1)
            case "absolute" if count == 0 and self.is_before_first:
                return None
            case "forward" | "relative" if count == 0:
                return None
        raise self.backwards()

    def backwards(self) -> GatewayError:
        """Return that it does not go back; the rows that were taken are not there any more."""
        return GatewayError(
            "cursor can only scan forward",
            sqlstate=codes.OBJECT_NOT_IN_PREREQUISITE_STATE,
            hint="Declare it with SCROLL option to enable backward scan.",
        )

    def require_rows(self) -> None:
        """Require that a portal which has been executed returns rows: others run once.

        Raises:
            GatewayError: 55000 where it does not.
        """
        if self.result is not None and self.result.columns is None:
            raise GatewayError(
                f'portal "{self.name}" cannot be run',
                sqlstate=codes.OBJECT_NOT_IN_PREREQUISITE_STATE,
            )

    def encode_in(self, before: str, after: str) -> None:
        """Follow the client from one encoding to another one.

        Args:
            before: PostgreSQL's name of the encoding that the parameters are in.
            after: That of the encoding in which rows are sent from now on.
        """
        if self.result is not None:
            self.result.stream.encode_in(after)
            return
        plan = self.statement.plan
        if plan is None or plan.analysis is None or not self.parameters:
            return
        oids, formats = plan.analysis.parameter_oids, self.parameter_formats
        codes = format_codes(formats, len(self.parameters))
        try:
            (values,) = recoded([list(self.parameters)], oids, codes, before, after)
        except GatewayError as error:
            self.unreadable = error
        else:
            self.parameters = tuple(values)

    def close(self) -> None:
        """Release the rows not taken."""
        if self.result is not None:
            self.result.stream.close()


def format_codes(formats: Sequence[int], columns: int) -> tuple[int, ...]:
    """Expand the format codes of a Bind message to one for each column."""
    if not formats:
        return (0,) * columns
    if len(formats) == 1:
        return (formats[0],) * columns
    return tuple(formats)
