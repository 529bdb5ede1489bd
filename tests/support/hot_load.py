"""Random transactions on rows of a tiered table, and what they have to come to in any order.

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
from psycopg import errors

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


@dataclass
class Effects:
    """What a transaction adds to rows: to their number, balances and counters, and moves."""

    added: Counter[tuple[str, int]] = field(default_factory=Counter)

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


def initial() -> Counter[tuple[str, int]]:
    """Return what the table holds at first."""
    effects = Effects()
    for row in LASTING:
        effects.inserted(row, BALANCE)
    return effects.added


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


def add(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    (key,) = some_keys(chance, 1)
    query = "UPDATE t SET n = n + 1 WHERE k = %s"
    effects.add("n", row_of(key))
    return touched(connection.execute(query, [key], prepare=chance.random() < 0.7), key)


def transfer(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    amount, done = chance.randint(1, 9), []
    for key, change in zip(some_keys(chance, 2), (-amount, amount), strict=True):
        query = "UPDATE t SET balance = balance + %s WHERE k = %s"
        prepare = chance.random() < 0.5
        done.append(touched(connection.execute(query, [change, key], prepare=prepare), key))
        effects.add("balance", row_of(key), change)
    return all(done)


def transfer_at_once(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    from_, to = some_keys(chance, 2)
    query = (
        "UPDATE t SET balance = balance + CASE k WHEN %s::int THEN -3 ELSE 3 END"
        " WHERE k IN (%s, %s)"
    )
    effects.add("balance", row_of(from_), -3)
    effects.add("balance", row_of(to), 3)
    return connection.execute(query, [from_, from_, to]).rowcount == 2


def transfer_in_pipeline(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    # Not prepared: psycopg takes a statement for prepared whose Parse was skipped in a pipeline.
    query, cursors = "UPDATE t SET balance = balance + %s WHERE k = %s", []
    with connection.pipeline():
        for key, change in zip(some_keys(chance, 2), (-2, 2), strict=True):
            cursors.append((key, connection.execute(query, [change, key], prepare=False)))
            effects.add("balance", row_of(key), change)
    return all(touched(cursor, key) for key, cursor in cursors)


def add_to_many(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    keys = some_keys(chance, 5)
    query = "UPDATE t SET n = n + 1, note = 'many' WHERE k IN (%s, %s, %s, %s, %s) RETURNING k, id"
    found = connection.execute(query, keys).fetchall()
    for key, row in found:
        expect(row == row_of(key), "another row", key, row)
        effects.add("n", row)
    missed = set(keys) & set(STEADY) - {key for key, _ in found}
    expect(not missed, "missed", missed)
    return bool(found)


def lock_and_set(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    (key,) = some_keys(chance, 1)
    strength = chance.choice(("UPDATE", "NO KEY UPDATE"))
    cursor = connection.execute(f"SELECT n FROM t WHERE k = %s FOR {strength}", [key])  # type: ignore[call-overload]
    found = cursor.fetchall()
    expect(bool(found) or key not in STEADY, "no row to lock", key)
    if not found:
        return False
    done = connection.execute("UPDATE t SET n = %s WHERE k = %s", [found[0][0] + 1, key])
    expect(done.rowcount == 1, "a locked row has gone", key)
    effects.add("n", row_of(key))
    return True


def lock_at_once(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    (key,) = some_keys(chance, 1)
    query = "SELECT n FROM t WHERE k = %s FOR UPDATE NOWAIT"
    if not connection.execute(query, [key]).fetchall():
        return False
    done = connection.execute("UPDATE t SET n = n + 1 WHERE k = %s", [key])
    expect(done.rowcount == 1, "a locked row has gone", key)
    effects.add("n", row_of(key))
    return True


def set_if_unchanged(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    (key,) = some_keys(chance, 1)
    found = connection.execute("SELECT n FROM t WHERE k = %s", [key]).fetchall()
    expect(bool(found) or key not in STEADY, "no row", key)
    if not found:
        return False
    query = "UPDATE t SET n = %s WHERE k = %s AND n = %s"
    effects.add("n", row_of(key))
    return connection.execute(query, [found[0][0] + 1, key, found[0][0]]).rowcount == 1


def read_own(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    (key,) = some_keys(chance, 1)
    query = "UPDATE t SET n = n + 1, note = %s WHERE k = %s RETURNING n, note"
    written = connection.execute(query, [str(chance.random()), key]).fetchall()
    expect(bool(written) or key not in STEADY, "no row", key)
    found = connection.execute("SELECT n, note FROM t WHERE k = %s", [key]).fetchall()
    if not written:
        return False
    expect(found == written, "own row", key, written, found)
    total = connection.execute("SELECT sum(balance) FROM t").fetchone()
    expect(total == (TOTAL,), "total in a writer", total)
    effects.add("n", row_of(key))
    return True


def put_back(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    row = chance.choice(PUT_BACK)
    query = "DELETE FROM t WHERE k = %s RETURNING k, id, balance, n, grp"
    taken = connection.execute(query, [row]).fetchall()
    if not taken:
        return False
    connection.execute("INSERT INTO t VALUES (%s, %s, %s, %s, %s, 'again')", taken[0])
    if chance.random() < 0.5:
        done = connection.execute("UPDATE t SET n = n + 1 WHERE k = %s", [row])
        expect(done.rowcount == 1, "a row that was put back", row)
        effects.add("n", row)
    return True


def move(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    row = chance.choice(MOVING)
    places = chance.sample((row, row + AWAY), 2)
    effects.move(row, places[1])
    done = connection.execute("UPDATE t SET k = %s WHERE k = %s", places[::-1])
    return touched(done, places[0])


def move_and_return(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    row = chance.choice(MOVING)
    places = chance.sample((row, row + AWAY), 2)
    done = connection.execute("UPDATE t SET k = %s, n = n + 1 WHERE k = %s", places[::-1])
    if not touched(done, places[0]):
        return False
    done = connection.execute("UPDATE t SET k = %s, n = n + 1 WHERE k = %s", places)
    expect(done.rowcount == 1, "a row that was moved", places)
    effects.add("n", row, 2)
    return True


def upsert(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    row = chance.choice((*STEADY, *PUT_BACK, *LOOSE, *LOOSE))
    query = (
        "INSERT INTO t VALUES (%s, %s, 0, 1, 0, 'upsert')"
        " ON CONFLICT (k) DO UPDATE SET n = t.n + 1 RETURNING old.k IS NULL, new.n"
    )
    ((is_new, n),) = connection.execute(query, [row, row]).fetchall()
    expect(not is_new or (row in LOOSE and n == 1), "upsert", row, n)
    effects.add("row", row, int(is_new))
    effects.add("n", row)
    return True


def insert_if_missing(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    row = chance.choice((*STEADY, *PUT_BACK, *LOOSE))
    query = "INSERT INTO t VALUES (%s, %s, 0, 1, 0, 'missing') ON CONFLICT DO NOTHING"
    if connection.execute(query, [row, row]).rowcount:
        expect(row in LOOSE, "inserted beside another", row)
        effects.inserted(row, n=1)
    return True


def merge(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    row = chance.choice(LOOSE)
    query = (
        "MERGE INTO t USING (VALUES (%s::int, 1)) s (k, n) ON t.k = s.k"
        " WHEN MATCHED AND t.n > 4 THEN DELETE"
        " WHEN MATCHED THEN UPDATE SET n = t.n + s.n"
        " WHEN NOT MATCHED THEN INSERT VALUES (s.k, s.k, 0, s.n, 0, 'merge')"
        " RETURNING merge_action(), old.n"
    )
    done = connection.execute(query, [row]).fetchall()
    expect(len(done) == 1, "merge", row, done)
    ((action, n),) = done
    if action == "DELETE":
        effects.deleted(row, 0, n)
    else:
        effects.add("row", row, int(action == "INSERT"))
        effects.add("n", row)
    return True


def insert(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    row = chance.choice(LOOSE)
    connection.execute("INSERT INTO t VALUES (%s, %s, 0, 1, 0, 'insert')", [row, row])
    effects.inserted(row, n=1)
    return True


def take_out(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    row = chance.choice(LOOSE)
    found = connection.execute("DELETE FROM t WHERE k = %s RETURNING n", [row]).fetchall()
    for (n,) in found:
        effects.deleted(row, 0, n)
    return bool(found)


def insert_twice(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    key = chance.choice(STEADY)
    connection.execute("SAVEPOINT before")
    try:
        connection.execute("INSERT INTO t VALUES (%s, %s, 0, 0, 0, 'twice')", [key, key])
    except errors.UniqueViolation:
        connection.execute("ROLLBACK TO before")
        return add(connection, chance, effects)
    raise WrongAnswerError("a key there is was inserted", key)


def queue(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    for _ in range(chance.randint(1, 2)):
        found = connection.execute(
            "INSERT INTO t SELECT j, j, 0, 0, %s, 'job' FROM nextval('jobs') j RETURNING k", [QUEUE]
        ).fetchall()
        effects.inserted(found[0][0])
    return True


def pop(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    query = "SELECT k FROM t WHERE grp = %s ORDER BY k LIMIT %s FOR UPDATE SKIP LOCKED"
    found = connection.execute(query, [QUEUE, chance.randint(1, 3)]).fetchall()
    for (key,) in found:
        done = connection.execute("DELETE FROM t WHERE k = %s RETURNING n", [key]).fetchall()
        expect(len(done) == 1, "a locked job has gone", key)
        effects.deleted(key, 0, done[0][0])
    return bool(found)


def pop_at_once(connection: Connection, _: random.Random, effects: Effects) -> bool:
    query = (
        "DELETE FROM t WHERE k IN (SELECT k FROM t WHERE grp = %s ORDER BY k LIMIT 1"
        " FOR UPDATE SKIP LOCKED) RETURNING k, n"
    )
    found = connection.execute(query, [QUEUE]).fetchall()
    for key, n in found:
        effects.deleted(key, 0, n)
    return bool(found)


def add_to_group(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    group = chance.choice((*range(1, GROUPS), STEADY_GROUP))
    query = "UPDATE t SET n = n + 1 WHERE grp = %s RETURNING id"
    found = [row for (row,) in connection.execute(query, [group]).fetchall()]
    expect(group != STEADY_GROUP or sorted(found) == [*STEADY], "steady group", found)
    for row in found:
        effects.add("n", row)
    return bool(found)


def regroup(connection: Connection, chance: random.Random, _: Effects) -> bool:
    (key,) = some_keys(chance, 1)
    if key in STEADY:
        return False
    query = "UPDATE t SET grp = %s WHERE k = %s"
    done = connection.execute(query, [chance.randrange(1, GROUPS), key])
    return touched(done, key)


def add_wherever(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    row = chance.choice(MOVING)
    query = "UPDATE t SET n = n + 1 WHERE id = %s RETURNING k"
    found = connection.execute(query, [row]).fetchall()
    expect(len(found) == 1 and row_of(found[0][0]) == row, "a row that moves", row, found)
    effects.add("n", row)
    return True


def take_back(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    connection.execute("SAVEPOINT before")
    for step in chance.choices((transfer, put_back, move, upsert, take_out), k=2):
        step(connection, chance, Effects())
    connection.execute("ROLLBACK TO before")
    return transfer(connection, chance, effects)


def take_part_back(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    if not transfer(connection, chance, effects):
        return False
    connection.execute("SAVEPOINT one")
    if not add(connection, chance, effects):
        return False
    connection.execute("SAVEPOINT two")
    put_back(connection, chance, Effects())
    connection.execute("ROLLBACK TO two")
    connection.execute("RELEASE one")
    return True


SMALL_STEPS: tuple[tuple[Step, bool], ...] = (
    *((step, True) for step in (add, add, transfer, transfer, transfer_at_once)),
    (transfer_in_pipeline, True),
    (add_to_many, True),
    (lock_and_set, True),
    (lock_at_once, False),
    (set_if_unchanged, True),
    (read_own, True),
    (put_back, True),
    (put_back, True),
    (move, True),
    (move_and_return, True),
    (upsert, True),
    (insert_if_missing, True),
    (merge, True),
    (insert, True),
    (take_out, True),
    (insert_twice, True),
    (queue, True),
    (pop, False),
    (pop_at_once, False),
    (add_to_group, True),
    (regroup, True),
    (add_wherever, True),
    (take_back, True),
    (take_part_back, True),
)
"""Each with whether it may run in any isolation level: what does not wait needs hot rows."""


def add_everywhere(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    query = "UPDATE t SET n = n + 1, note = 'bulk' WHERE (balance + k) %% 7 = %s RETURNING id"
    for (row,) in connection.execute(query, [chance.randint(0, 6)]).fetchall():
        effects.add("n", row)
    return True


def add_to_half(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    query = "UPDATE t SET n = n + 1, note = 'half' WHERE id %% 2 = %s RETURNING id"
    half = chance.randint(0, 1)
    found = {row for (row,) in connection.execute(query, [half]).fetchall()}
    missed = {row for row in LASTING if row % 2 == half} - found
    expect(not missed or not missed - set(PUT_BACK), "half of the rows", missed)
    for row in found:
        effects.add("n", row)
    return True


def load(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    first = FIRST_LOAD + chance.randrange(1_000_000)
    keys = range(first, first + LOAD_ROWS)
    with connection.cursor() as cursor, cursor.copy("COPY t FROM STDIN") as copy:
        copy.write("".join(f"{key}\t{key}\t0\t0\t{LOADED}\tload\n" for key in keys))
    for key in keys:
        effects.inserted(key)
    return True


def unload(connection: Connection, _: random.Random, effects: Effects) -> bool:
    query = "DELETE FROM t WHERE grp = %s RETURNING id, n"
    for row, n in connection.execute(query, [LOADED]).fetchall():
        effects.deleted(row, 0, n)
    return True


def empty_another(connection: Connection, _: random.Random, __: Effects) -> bool:
    connection.execute("TRUNCATE other")
    connection.execute("INSERT INTO other SELECT generate_series(1, 10)")
    return True


def small_and_bulk(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    """Change single rows of a table that is locked as a whole, and the other way round."""
    steps = [add_everywhere, transfer]
    chance.shuffle(steps)
    return all(step(connection, chance, effects) for step in steps)


BULK_STEPS: tuple[tuple[Step, bool], ...] = (
    *((step, True) for step in (add_everywhere, add_to_half, load, unload)),
    (empty_another, True),
    (small_and_bulk, True),
)
