"""What can be asked of PostgreSQL in one round trip, as values: the steps of a pipeline."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from catalog.errors import CatalogError
from catalog.pg import sqlstate

_MOST_BYTES: Final = 1_000_000_000
"""Values of a message; PostgreSQL ends the session where one is longer than 1 GB."""


@dataclass(frozen=True, slots=True)
class Query:
    """Parse, bind and execute without a name."""

    sql: str
    values: Sequence[bytes | None] = ()
    parameter_oids: Sequence[int] = ()
    formats: Sequence[int] = ()
    result_format: int = 0
    internal: bool = False
    """True for our own calls, whose error context is not for clients."""
    chunk_rows: int | None = None
    """How many rows are taken at a time where they are streamed; None: the usual number."""
    nested_loops: bool = True
    """False where each subquery has to run once: PostgreSQL is kept from running it for each row of
    another relation."""
    codes: Sequence[Callable[[], bytes]] = ()
    """Each makes one more value, before the others, whenever the step is sent."""
    is_clients: bool = False
    """Whether text, values and rows are the client's, in its encoding; else they are in UTF-8."""

    def sent_values(self) -> list[bytes | None]:
        """Return the values to be sent this time."""
        return [*(make() for make in self.codes), *self.values]

    @property
    def is_plain(self) -> bool:
        """Whether there is nothing in it but the text: one statement, rows in text format."""
        return not self.values and not self.parameter_oids and self.result_format == 0

    def value_formats(self) -> list[int] | None:
        """Return the format code of each value; None when all are text."""
        return _each(self.formats, len(self.values))


@dataclass(frozen=True, slots=True)
class Prepare:
    """Parse under a name."""

    name: str
    sql: str
    parameter_oids: Sequence[int] = ()
    internal: bool = False


@dataclass(frozen=True, slots=True)
class Describe:
    """Describe a prepared statement."""

    name: str
    internal: bool = False


@dataclass(frozen=True, slots=True)
class DescribePortal:
    """Describe a portal, such as a cursor that SQL has declared."""

    name: str
    internal: bool = False


@dataclass(frozen=True, slots=True)
class Execute:
    """Bind and execute a prepared statement."""

    name: str
    values: Sequence[bytes | None] = ()
    formats: Sequence[int] = ()
    result_format: int = 0
    internal: bool = False
    is_clients: bool = False
    """Whether values and rows are the client's, in its encoding; else they are in UTF-8."""

    def value_formats(self) -> list[int] | None:
        """Return the format code of each value; None when all are text."""
        return _each(self.formats, len(self.values))


@dataclass(frozen=True, slots=True)
class Close:
    """Close a prepared statement; none of that name is no error."""

    name: str
    internal: bool = False


COMMIT: Final = Query("COMMIT")
"""The step with which the gateway itself commits."""

Step = Query | Prepare | Describe | DescribePortal | Execute | Close


def require_sendable(steps: Iterable[Step]) -> None:
    """Refuse messages that PostgreSQL would end the session for.

    Raises:
        CatalogError: 54000.
    """
    for step in steps:
        if isinstance(step, Query | Execute) and step.values:
            size = sum(len(value) for value in step.values if value is not None)
            if size > _MOST_BYTES:
                raise CatalogError(
                    "the values of a statement are too many bytes",
                    sqlstate=sqlstate.PROGRAM_LIMIT_EXCEEDED,
                    detail=f"They take up {size} bytes; {_MOST_BYTES} are the most.",
                )


def _each(formats: Sequence[int], count: int) -> list[int] | None:
    """Return one format code per value, as Bind's rule has it."""
    if not formats:
        return None
    return list(formats) * count if len(formats) == 1 else list(formats)
