"""Random MERGEs into a partitioned table, and the rows that it and its source have before.

Rows are few, and their keys come from a small range: so that they meet, move onto each other, and
leave the bounds of all partitions.
"""

import random
from collections.abc import Iterator

TABLES = (
    (
        "CREATE TABLE m (id int, k int, v int, t varchar(12),"
        " g int GENERATED ALWAYS AS (v * 2) STORED, PRIMARY KEY (id, k),"
        " CONSTRAINT no_13 CHECK (v <> 13)) PARTITION BY RANGE (k)"
    ),
    "CREATE TABLE m0 PARTITION OF m FOR VALUES FROM (0) TO (5)",
    "CREATE TABLE m1 PARTITION OF m FOR VALUES FROM (5) TO (10) PARTITION BY LIST (id)",
    "CREATE TABLE m1a PARTITION OF m1 FOR VALUES IN (1, 2, 3)",
    "CREATE TABLE m1b PARTITION OF m1 DEFAULT",
    "CREATE TABLE m2 PARTITION OF m FOR VALUES FROM (10) TO (20)",
    "CREATE TABLE s (id int, k int, v int, t text)",
)
DEFAULT = "CREATE TABLE md PARTITION OF m DEFAULT"

LEAVES = ("m0", "m1a", "m1b", "m2")

_KEYS = (0, 1, 4, 5, 6, 9, 10, 11)

_ON = (
    "m.id = s.id AND m.k = s.k",
    "m.id = s.id AND m.k = s.k",
    "m.id = s.id",
    "m.k = s.k AND m.id = s.id AND m.v > 0",
    "m.id = s.id AND m.k < 10",
    "m.v = s.v",
)
_SET = (
    "v = s.v",
    "v = m.v + 1, t = s.t",
    "k = s.v",
    "k = m.k + 5",
    "k = 9 - m.k",
    "k = (m.k + 5) % 15, v = s.v",
    "id = m.id + 10",
    "id = s.id + 20, k = s.v, t = 'moved'",
    "k = NULLIF(s.v, 4)",
    "k = s.v * 7",
)
_INSERT = (
    "INSERT (id, k, v, t) VALUES (s.id, s.k, s.v, s.t)",
    "INSERT (id, k, v) VALUES (s.id + 30, s.v, 1)",
    "INSERT (id, k) VALUES (s.id, 4)",
    "INSERT (id, k, v, t) VALUES (s.id, s.k + 5, s.v, 'later')",
)
_MATCHED_IF = ("", "", " AND s.v > 4", " AND m.v % 2 = 0", " AND s.t IS NULL", " AND m.k < s.v")
_MISSING_IF = ("", "", " AND s.v > 4", " AND s.t IS NOT NULL")
_LEFT_IF = ("", " AND m.k >= 5", " AND m.v > 6")
_LEFT_SET = ("v = 0", "k = m.k + 5", "k = m.v", "t = 'left'")


def contents(seed: int) -> Iterator[str]:
    """Yield the statements that fill the tables anew."""
    chance = random.Random(seed)  # noqa: S311
    yield "DELETE FROM m"
    yield "DELETE FROM s"
    keys = {(chance.randint(1, 7), chance.choice(_KEYS)) for _ in range(chance.randint(3, 14))}
    rows = [f"({id_}, {k}, {chance.randint(0, 12)}, 'row {id_}')" for id_, k in sorted(keys)]
    yield f"INSERT INTO m (id, k, v, t) VALUES {', '.join(rows)}"
    given = [*sorted(keys), *((chance.randint(1, 9), chance.choice(_KEYS)) for _ in range(6))]
    taken = chance.sample(given, chance.randint(1, min(9, len(given))))
    taken = taken if chance.random() < 0.2 else list(dict.fromkeys(taken))
    values = [
        f"({id_}, {k}, {chance.randint(0, 12)}, {chance.choice(('NULL', repr(f's{id_}')))})"
        for id_, k in taken
    ]
    yield f"INSERT INTO s VALUES {', '.join(values)}"


def merge(seed: int) -> str:
    """Return a MERGE whose source does not tell PostgreSQL which keys it has."""
    chance = random.Random(seed)  # noqa: S311
    clauses = [
        *(_matched(chance) for _ in range(chance.randint(0, 3))),
        *(_missing(chance) for _ in range(chance.randint(0, 2))),
        *(_left(chance) for _ in range(chance.choice((0, 0, 1, 2)))),
    ] or [_matched(chance)]
    chance.shuffle(clauses)
    # What is behind a clause without condition of its kind would never be reached (42601).
    clauses = [
        clause
        for number, clause in enumerate(clauses)
        if not any(_hides(before, clause) for before in clauses[:number])
    ]
    returning = chance.choice(
        (
            "",
            "",
            " RETURNING merge_action(), m.*",
            " RETURNING merge_action(), old.id, old.k, old.g, new.*, s.v",
            " RETURNING m.id + m.k, old.v, new.g",
        )
    )
    source = "(SELECT id + 0 AS id, k + 0 AS k, v, t FROM s)"
    return f"MERGE INTO m USING {source} s ON {chance.choice(_ON)} {' '.join(clauses)}{returning}"


def _hides(before: str, clause: str) -> bool:
    kind, _, _ = clause.partition(" THEN ")
    earlier, _, _ = before.partition(" THEN ")
    return " AND " not in earlier and kind.partition(" AND ")[0] == earlier


def _matched(chance: random.Random) -> str:
    action = chance.choice(
        (*(f"UPDATE SET {chance.choice(_SET)}" for _ in range(4)), "DELETE", "DO NOTHING")
    )
    return f"WHEN MATCHED{chance.choice(_MATCHED_IF)} THEN {action}"


def _missing(chance: random.Random) -> str:
    action = chance.choice((*_INSERT, _INSERT[0], "DO NOTHING"))
    return f"WHEN NOT MATCHED{chance.choice(_MISSING_IF)} THEN {action}"


def _left(chance: random.Random) -> str:
    action = chance.choice(
        (*(f"UPDATE SET {chance.choice(_LEFT_SET)}" for _ in range(3)), "DELETE", "DO NOTHING")
    )
    return f"WHEN NOT MATCHED BY SOURCE{chance.choice(_LEFT_IF)} THEN {action}"
