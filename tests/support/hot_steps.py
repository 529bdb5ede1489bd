"""Small steps of random transactions on a tiered table: few rows, by their keys or conditions."""

import random

from psycopg import errors

from tests.support.hot_load import (
    AWAY,
    GROUPS,
    LOOSE,
    MOVING,
    PUT_BACK,
    QUEUE,
    STEADY,
    STEADY_GROUP,
    TOTAL,
    Connection,
    Effects,
    Part,
    WrongAnswerError,
    expect,
    row_of,
    some_keys,
    touched,
)


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


_TAKEN = frozenset({"23505"})
"""Somebody else has inserted the key."""

PARTS = (
    *map(Part, (add, add, transfer, transfer, transfer_at_once)),
    Part(transfer_in_pipeline),
    Part(add_to_many),
    Part(lock_and_set),
    Part(lock_at_once, in_any=False),
    Part(set_if_unchanged),
    Part(read_own),
    Part(put_back),
    Part(put_back),
    Part(move),
    Part(move_and_return),
    Part(upsert),
    Part(insert_if_missing),
    Part(merge, refused=_TAKEN),
    Part(insert, refused=_TAKEN),
    Part(take_out),
    Part(insert_twice),
    Part(queue),
    Part(pop, in_any=False),
    Part(pop_at_once, in_any=False),
    Part(add_to_group),
    Part(regroup),
    Part(add_wherever),
    Part(take_back),
    Part(take_part_back),
)
