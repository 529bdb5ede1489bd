"""What the rule of thaw-and-run has to know of the tables, besides the statement's tree.

Values only: whoever calls reads them from the catalog.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from rewrite.tree import Node


class Action(Enum):
    """What a foreign key does to the referencing rows; the values are those of pg_constraint."""

    NO_ACTION = "a"
    RESTRICT = "r"
    CASCADE = "c"
    SET_NULL = "n"
    SET_DEFAULT = "d"


@dataclass(frozen=True, slots=True)
class UniqueKey:
    """A primary key, a unique constraint or a unique index."""

    columns: tuple[int, ...]
    """Attribute numbers; generated columns may be among them."""
    irregular: str | None = None
    """Why its values are not those of the columns, NULLs apart: "an index with a predicate". The
    columns are then all those the index looks at."""
    computed: bool = False
    """Whether its values are computed from the columns, or some rows have none. Then nothing tells
    before a statement has run which rows have a value that it writes."""
    kept_afterwards: bool = False
    """Whether who writes its values looks for other rows that have them when the statement has run.
    Then only an INSERT with ON CONFLICT has to know them before."""


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """A foreign key, seen from both ends."""

    child: int
    columns: tuple[int, ...]
    parent: int
    referenced: tuple[int, ...]
    """The parent's columns, in the order of ``columns``."""
    on_update: Action = Action.NO_ACTION
    on_delete: Action = Action.NO_ACTION
    nulled: tuple[int, ...] = ()
    """The columns named by ON DELETE SET NULL (…) or SET DEFAULT (…); none: all."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A table a statement may touch, itself or by a foreign key's action."""

    unique: tuple[UniqueKey, ...] = ()
    generated: frozenset[int] = frozenset()
    """Columns computed from the others of the row."""
    code: str | None = None
    """What of a user's code runs when the table is written: "the trigger audit"."""
    unfit: str | None = None
    """Why no statement may be run on hot rows of the table at all: "its partitions"."""


@dataclass(frozen=True, slots=True)
class Definitions:
    """The tables of the closure: what a statement names, and what foreign keys reach from there."""

    tiered: frozenset[int]
    """OIDs of the tables most of whose rows are cold."""
    volatility: Callable[[int], str]
    """``pg_proc.provolatile`` of a function by OID."""
    relations: Mapping[int, Relation] = field(default_factory=dict)
    """By OID; a table that is missing has nothing of what a Relation tells."""
    foreign_keys: tuple[ForeignKey, ...] = ()
    is_known: Callable[[Node], bool] = lambda _: True
    """Whether a value that is the same throughout a transaction is known before a statement runs.
    What is written is looked for when it has run where it is not."""
    domain_checks: Callable[[int], Sequence[Node]] | None = None
    """The checks of a domain by OID, with those of the domains it is made of; None: not known."""
    signature: Callable[[int], str] = str
    """The name of a user's function by OID, with the types of its arguments."""
    readable: frozenset[int] = frozenset()
    """OIDs of tables of PostgreSQL whose rows are looked at before a statement runs, and of which
    it is made sure afterwards that it saw no others."""

    def relation(self, relid: int) -> Relation:
        """Return what is known of a table."""
        return self.relations.get(relid, Relation())
