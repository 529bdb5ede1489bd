"""Steps of random transactions that change a tiered table as a whole."""

import random

from tests.support.hot_load import (
    FIRST_LOAD,
    LASTING,
    LOAD_ROWS,
    LOADED,
    PUT_BACK,
    Connection,
    Effects,
    Part,
    expect,
)
from tests.support.hot_steps import transfer


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


PARTS = (
    *map(Part, (add_everywhere, add_to_half, load, unload)),
    Part(empty_another),
    Part(small_and_bulk),
)
