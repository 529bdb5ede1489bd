"""Rows of a tiered table, and what random transactions on them have to come to in any order.

A transaction says what it adds to rows, each known by an ``id`` that stays when its key changes.
What the table holds is the sum over all transactions that were committed, so it does not matter
who came first. Each leaves a receipt in another table; who does not learn whether COMMIT was done
finds it there.
"""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import psycopg

Connection = psycopg.Connection

STEADY = range(1, 9)
"""Rows that are always there, with these keys."""

MOVING = range(9, 21)
"""Rows that are always there; their keys change."""

AWAY = 5_000
"""What is added to a key, and taken away again."""

PUT_BACK = range(21, 41)
"""Rows that are deleted and inserted again in one transaction."""

LOOSE = range(41, 53)
"""Rows that come and go."""

LASTING = (*STEADY, *MOVING, *PUT_BACK)
"""Rows that every snapshot holds."""

BALANCE = 100

TOTAL = len(LASTING) * BALANCE
"""The sum of the balances at any moment."""

GROUPS = 6

STEADY_GROUP, QUEUE, LOADED = 100, 101, 102
"""Groups that rows do not leave."""

FIRST_JOB, FIRST_LOAD = 10_000, 100_000

LOAD_ROWS = 250

SCHEMA = f"""
CREATE SEQUENCE jobs START {FIRST_JOB};
CREATE TABLE t (k integer PRIMARY KEY, id integer NOT NULL, balance integer NOT NULL,
                n integer NOT NULL, grp integer, note text, CHECK (n >= 0));
CREATE TABLE receipts (writer integer, number integer, PRIMARY KEY (writer, number));
CREATE TABLE other (k integer PRIMARY KEY);
INSERT INTO t SELECT g, g, {BALANCE}, 0, CASE WHEN g <= {STEADY[-1]} THEN {STEADY_GROUP}
    ELSE g % {GROUPS} END, 'first' FROM generate_series(1, {LASTING[-1]}) g;
VACUUM t;
INSERT INTO other SELECT generate_series(1, 10)
"""

ROWS = "SELECT id, k, balance, n FROM t"

REPLAYED = """
    SELECT id, k, balance, n FROM (
        SELECT *, row_number() OVER (PARTITION BY k ORDER BY version_number DESC) AS age
        FROM t_journal) versions
    WHERE age = 1 AND subsequent_version_number IS NULL"""
"""What the journal makes of the table."""

PASSING = frozenset({"40001", "40P01", "55P03"})
"""Serialization, deadlocks, locks: what any statement may be refused for."""


class WrongAnswerError(Exception):
    """A statement has answered what it never can."""


Image = tuple[int | None, ...]
"""The values of a row."""


@dataclass
class Effects:
    """What a transaction adds to rows: to their number, balances and counters, and moves."""

    added: Counter[tuple[str, int]] = field(default_factory=Counter)
    images: Counter[tuple[str, Image]] = field(default_factory=Counter)
    """Rows of other tables, by table, that have come as they are here, less those that went."""

    def update(self, other: "Effects") -> None:
        """Add what another transaction adds."""
        self.added.update(other.added)
        self.images.update(other.images)

    def add(self, what: str, row: int, amount: int = 1) -> None:
        """Add to one of ``row``, ``balance``, ``n`` and ``away`` of a row."""
        self.added[what, row] += amount

    def inserted(self, row: int, balance: int = 0, n: int = 0) -> None:
        """Note a row that has come."""
        self.add("row", row)
        self.add("balance", row, balance)
        self.add("n", row, n)

    def deleted(self, row: int, balance: int, n: int) -> None:
        """Note a row that has gone."""
        self.add("row", row, -1)
        self.add("balance", row, -balance)
        self.add("n", row, -n)

    def move(self, row: int, to: int) -> None:
        """Note that a row has got another key."""
        self.add("away", row, 1 if to == row + AWAY else -1)


def initial() -> Effects:
    """Return what the table holds at first."""
    effects = Effects()
    for row in LASTING:
        effects.inserted(row, BALANCE)
    return effects


def rows_of(state: Counter[tuple[str, int]]) -> list[tuple[int, int, int, int]]:
    """Return the rows that a sum of effects comes to, as the table holds them.

    What cannot be, such as a row that has gone twice, is a row whose key is that number.
    """
    found = []
    for row in sorted({row for (_, row), amount in state.items() if amount}):
        there, away, balance, n = (state[what, row] for what in ("row", "away", "balance", "n"))
        is_fit = there == 1 and away in {0, 1}
        if there or balance or n or away:
            found.append((row, row + AWAY * away if is_fit else there, balance, n))
    return found


Step = Callable[[Connection, random.Random, Effects], bool]
"""A part of a transaction; it is rolled back where the answer is False."""


@dataclass(frozen=True)
class Part:
    """A step as writers draw it."""

    step: Step
    in_any: bool = True
    """Whether it may run in any isolation level: what does not wait needs hot rows."""
    refused: frozenset[str] = frozenset()
    """What it may be refused for, besides what any statement may be."""


def row_of(key: int) -> int:
    """Return the row that a key belongs to."""
    return key - AWAY if key - AWAY in MOVING else key


def some_keys(chance: random.Random, count: int, *, sort: bool = True) -> list[int]:
    """Draw keys of different rows, mostly in an order that does not lead to deadlocks."""
    rows = chance.sample(LASTING, count)
    if sort and chance.random() < 0.9:
        rows.sort()
    return [row + AWAY * chance.randint(0, 1) if row in MOVING else row for row in rows]


def expect(is_so: bool, *told: object) -> None:
    """Complain about an answer that cannot be."""
    if not is_so:
        raise WrongAnswerError(*told)


def touched(cursor: psycopg.Cursor, key: int) -> bool:
    """Return whether a row was found by its key; those that are always there have to be."""
    count = cursor.rowcount
    expect(count == 1 or (count == 0 and key not in STEADY), key, count)
    return count == 1
