"""What can be seen of a statement, and what a comparison of two runs of it comes to."""

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum

Row = tuple[int | None, ...]


class Verdict(Enum):
    """How the comparison of one statement ended."""

    SAME = "the same on hot rows as on all"
    WHOLE = "the same, where the rule asks for all rows of a table"
    REFUSED = "refused"
    AMBIGUOUS = "the full tables give several answers"
    UNDECIDED = "failed before all keys were known: another road is taken"
    MISMATCH = "another answer on hot rows"


@dataclass(frozen=True)
class Outcome:
    """What can be seen of a statement."""

    tag: str
    """Its command tag, with the number of rows; or the SQLSTATE of its error."""
    failed: bool
    rows: Counter[tuple[str | None, ...]]
    tables: dict[str, Counter[Row]]
    """Contents afterwards; empty when it failed."""
    locked: dict[str, Counter[Row]] = field(default_factory=dict)
    """The rows that are locked, and as they were."""
    untouched: dict[str, Counter[Row]] = field(default_factory=dict, compare=False)
    """The rows that are neither locked nor written."""


@dataclass
class Comparison:
    """One statement, and what came of it."""

    sql: str
    verdict: Verdict
    reason: str = ""
    runs: int = 0
    expected: Outcome | None = None
    found: Outcome | None = None
    told: bool = False
    """Whether sources told which rows were searched."""
