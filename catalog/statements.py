"""Split query strings and classify statements with PostgreSQL's own grammar."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any


class StatementKind(Enum):
    """What a statement is to the gateway."""

    SELECT = auto()
    INSERT = auto()
    UPDATE = auto()
    DELETE = auto()
    MERGE = auto()
    VALUES = auto()
    """VALUES lists as a statement of their own."""
    TABLE = auto()
    SELECT_INTO = auto()
    CREATE_TABLE_AS = auto()
    COPY = auto()
    TRUNCATE = auto()
    TRANSACTION = auto()
    DECLARE = auto()
    FETCH = auto()
    CLOSE = auto()
    SET = auto()
    SHOW = auto()
    RESET = auto()
    PREPARE = auto()
    EXECUTE = auto()
    DEALLOCATE = auto()
    DISCARD = auto()
    EXPLAIN = auto()
    LISTEN = auto()
    NOTIFY = auto()
    UNLISTEN = auto()
    LOCK = auto()
    VACUUM = auto()
    """VACUUM and ANALYZE."""
    DO = auto()
    CALL = auto()
    DEFINITION = auto()
    """DDL that PostgreSQL executes as it is."""
    REFUSED = auto()
    """Not offered; `details` has sqlstate, message and hint."""
    OTHER = auto()
    """Anything else PostgreSQL executes as it is."""
    UNKNOWN = auto()
    """Not parsed: PostgreSQL is to report the syntax error."""


@dataclass(frozen=True, slots=True)
class RelationName:
    """A relation as a statement names it."""

    schema: str | None
    name: str


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a query string."""

    text: str
    """Without the separating semicolon and surrounding blanks."""
    offset: int
    """Characters before it in the query string."""
    kind: StatementKind
    relations: tuple[RelationName, ...] = ()
    """Every relation named anywhere in it, CTE names excluded."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """What the gateway needs of this kind; see the function of that kind in `statement_details`."""
    parameter_count: int = 0
    """Largest n of the `$n` that occur."""

    @property
    def all_qualified_system(self) -> bool:
        """True when every relation is in pg_catalog or information_schema by name."""
        return bool(self.relations) and all(
            r.schema in {"pg_catalog", "information_schema"} for r in self.relations
        )


def split(query_string: str) -> list[Statement]:
    """Return the statements of a query string; one UNKNOWN statement when it does not parse."""
    raise NotImplementedError
