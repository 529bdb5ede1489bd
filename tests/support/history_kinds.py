"""Random statements on a table of many types and on a partitioned one.

What they draw is written so that PostgreSQL reads it alike whatever the settings of the session.
"""

import random
from collections.abc import Callable
from functools import partial
from typing import Final

SCHEMA: Final = (
    "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')",
    "CREATE DOMAIN small_number AS integer CHECK (VALUE < 1000)",
    """CREATE TABLE kinds (
        k integer PRIMARY KEY, small smallint, r real, c char(5), clock time, at timestamp,
        moment timestamptz, mood mood, dom small_number, ip inet, place point, span int4range,
        bits bit(4), loose varbit, mac macaddr, late timetz, net cidr, words tsvector,
        many integer[], moments timestamptz[], moods mood[], holes nummultirange, number oid,
        ident name, plain json, search jsonpath, area box, shape polygon, lsn pg_lsn,
        letter "char")""",
    """CREATE TABLE parts (
        k integer, region text, v integer, moment timestamptz, PRIMARY KEY (k, region))
        PARTITION BY LIST (region)""",
    "CREATE TABLE parts_north PARTITION OF parts FOR VALUES IN ('n', 'nw')",
    "CREATE TABLE parts_south PARTITION OF parts FOR VALUES IN ('s')",
    "CREATE TABLE parts_rest PARTITION OF parts DEFAULT",
)

KEYS: Final = 120

_REGIONS: Final = ("n", "nw", "s", "e", "w")

_ADDRESSES: Final = ("10.0.0.1", "10.0.0.0/8", "::1", "fe80::/10", "192.168.1.9/24")

_RANGES: Final = ("empty", "[1,5)", "[1,5]", "(,7)", "[3,)", "(,)", "(2,9]")

_LITERALS: Final = {
    "bits": ("0000", "1010", "1111", "101"),
    "loose": ("", "1", "0101010101"),
    "mac": ("08:00:2b:01:02:03", "ffffff-ffffff"),
    "late": ("10:00:00+02", "24:00:00-15:59", "00:00:00.000001+00"),
    "net": ("10.0.0.0/8", "::/0", "10.1.2.3"),
    "words": ("", "a:1 fat:2A b", "it''s:3,4"),
    "many": ("{}", "{1,NULL,3}", "{-2147483648}"),
    "moments": ("{}", "{2024-02-29 12:00:00+00,NULL}", "{0001-01-01 00:00:00+00}"),
    "moods": ("{}", "{sad,NULL,happy}", "{angry}"),
    "holes": ("{}", "{[1,2),(5,7.50]}", "{(,0),[1,)}"),
    "number": ("0", "4294967295", "17"),
    "ident": ("", "a", "x" * 70),
    "plain": ('{"b": 1,  "a": [1.0, null], "b": 2}', '"\\u00e9"', "null", "[]"),
    "search": ("$", "lax $.a[*] ? (@.b > 1)", "strict $[last]"),
    "area": ("(1,1),(0,0)", "(0,0),(-1,2.5)"),
    "shape": ("((0,0),(1,0),(0,1))", "((1e300,0))"),
    "lsn": ("0/0", "16/B374D848"),
    "letter": ("", "a", "\\377"),
}
"""Values of columns, as their types' input functions read them; some are refused."""

_COLUMNS: Final = (
    *"small r c clock at moment mood dom ip place span".split(),  # noqa: SIM905
    *_LITERALS,
)


def values(draw: random.Random) -> dict[str, Callable[[], str]]:
    """Return what draws a literal of each column of ``kinds``."""

    def day() -> str:
        year = draw.choice((1, 1583, 1969, 2000, 2024, 9999))
        return f"{year:04}-{draw.randint(1, 12):02}-{draw.randint(1, 28):02}"

    def clock() -> str:
        return f"{draw.randint(0, 23):02}:{draw.randint(0, 59):02}:07.{draw.randrange(10**6):06}"

    return {
        "small": lambda: str(draw.choice((0, 1, -1, 32767, -32768, draw.randint(-9, 9), 40000))),
        "r": lambda: f"'{draw.choice(('0', '-0', 'NaN', '-Infinity', '0.1', '3e38', '1e-40'))}'",
        "c": lambda: f"'{draw.choice(('', 'a', 'ab   ', 'é', 'abcde', 'abcdefg', ' x'))}'",
        "clock": lambda: f"time '{draw.choice((clock(), '24:00', '00:00:00'))}'",
        "at": lambda: f"timestamp '{day()} {clock()}'",
        "moment": lambda: f"timestamptz '{day()} {clock()}+00'",
        "mood": lambda: f"'{draw.choice(('sad', 'ok', 'happy', 'happy', 'angry'))}'",
        "dom": lambda: str(draw.choice((0, -5, 999, 1000, draw.randint(-99, 999)))),
        "ip": lambda: f"inet '{draw.choice(_ADDRESSES)}'",
        "place": lambda: f"point '({draw.randint(-3, 3)},{draw.choice(('0.1', '-0', '1e300'))})'",
        "span": lambda: f"int4range '{draw.choice(_RANGES)}'",
        **{column: partial(_drawn, draw, texts) for column, texts in _LITERALS.items()},
    }


def _drawn(draw: random.Random, texts: tuple[str, ...]) -> str:
    return f"'{draw.choice(texts)}'"


class KindStatements:
    """A source of such statements."""

    def __init__(self, chance: random.Random) -> None:
        """Draw from a source of chance."""
        self._chance = chance
        self._values = values(chance)

    def typed(self) -> str:
        """Return a statement on ``kinds``."""
        key, column = self._key(), self._chance.choice(_COLUMNS)
        value = self._value(column)
        return self._chance.choice(
            (
                f"INSERT INTO kinds VALUES {self._rows(1)}",
                f"INSERT INTO kinds VALUES {self._rows(1)} RETURNING *",
                f"INSERT INTO kinds VALUES {self._rows(12)} ON CONFLICT DO NOTHING",
                (
                    f"INSERT INTO kinds VALUES {self._rows(3)} ON CONFLICT (k)"
                    " DO UPDATE SET moment = excluded.moment, c = kinds.c, mood = excluded.mood"
                ),
                (
                    "INSERT INTO kinds (k, small, c, at, mood)"
                    " SELECT g, g % 100, 'g' || g % 9, timestamp '2024-01-01' + g * interval '1 h',"
                    f" 'ok' FROM generate_series({KEYS + key}, {KEYS + key + 90}) g"
                    " ON CONFLICT DO NOTHING"
                ),
                f"UPDATE kinds SET {column} = {value} WHERE k = {key}",
                f"UPDATE kinds SET {column} = {value} WHERE k BETWEEN {key} AND {key + 6}",
                f"UPDATE kinds SET {column} = {value} WHERE {self._condition()} RETURNING k",
                (
                    "UPDATE kinds SET small = coalesce(small, 0) % 100 + 1, r = r / 2,"
                    " at = at + interval '1 day' WHERE mood = 'ok'"
                ),
                f"DELETE FROM kinds WHERE {self._condition()}",
                f"DELETE FROM kinds WHERE k = {key} RETURNING *",
                (
                    f"MERGE INTO kinds USING (VALUES ({key}, 5), ({key + KEYS}, 6)) AS s (k, n)"
                    " ON kinds.k = s.k WHEN MATCHED AND s.n = kinds.small THEN DELETE"
                    " WHEN MATCHED THEN UPDATE SET small = s.n"
                    " WHEN NOT MATCHED THEN INSERT (k, small, mood) VALUES (s.k, s.n, 'sad')"
                ),
                f"SELECT * FROM kinds WHERE {self._condition()}",
                f"SELECT k, {column} FROM kinds WHERE k < {key}",
                (
                    "SELECT mood, count(*), min(c), max(clock), min(at), max(moment), max(r)"
                    " FROM kinds GROUP BY mood ORDER BY mood"
                ),
                f"SELECT k, c || '|', small, dom FROM kinds ORDER BY k LIMIT 9 OFFSET {key % 5}",
            )
        )

    def partitioned(self) -> str:
        """Return a statement on ``parts``."""
        key, region, other = self._key(), self._region(), self._region()
        return self._chance.choice(
            (
                f"INSERT INTO parts VALUES ({key}, '{region}', {key % 9}, NULL)",
                (
                    f"INSERT INTO parts VALUES ({key}, '{region}', 1, {self._value('moment')}),"
                    f" ({key + 1}, '{other}', 2, NULL)"
                    " ON CONFLICT (k, region) DO UPDATE SET v = parts.v + 1 RETURNING *"
                ),
                (
                    "INSERT INTO parts SELECT g, (ARRAY['n','s','e'])[g % 3 + 1], g % 50, NULL"
                    f" FROM generate_series({key}, {key + 80}) g ON CONFLICT DO NOTHING"
                ),
                f"UPDATE parts SET v = coalesce(v, 0) + 1 WHERE k = {key}",
                f"UPDATE parts SET v = {key} WHERE region = '{region}' AND v > {key % 50}",
                f"UPDATE parts SET region = '{other}' WHERE k = {key} RETURNING k, region",
                f"UPDATE parts SET k = k + {KEYS} WHERE k BETWEEN {key} AND {key + 2}",
                f"DELETE FROM parts WHERE region = '{region}' AND k < {key}",
                f"DELETE FROM parts WHERE k = {key} RETURNING *",
                (
                    f"MERGE INTO parts USING (VALUES ({key}, '{region}'), ({key + 1}, '{other}'))"
                    " AS s (k, region) ON parts.k = s.k AND parts.region = s.region"
                    " WHEN MATCHED THEN UPDATE SET v = -1"
                    " WHEN NOT MATCHED THEN INSERT (k, region, v) VALUES (s.k, s.region, 0)"
                ),
                f"SELECT * FROM parts WHERE k = {key}",
                f"SELECT * FROM parts WHERE region IN ('{region}', '{other}')",
                "SELECT region, count(*), sum(v), max(moment) FROM parts GROUP BY region",
                f"SELECT k, v FROM parts WHERE k = {key} ORDER BY k, region FOR UPDATE",
                "TRUNCATE parts_south",
            )
        )

    def _key(self) -> int:
        return self._chance.randrange(KEYS)

    def _region(self) -> str:
        return self._chance.choice(_REGIONS)

    def _value(self, column: str) -> str:
        return "NULL" if self._chance.random() < 0.1 else self._values[column]()

    def _rows(self, count: int) -> str:
        first = self._key()
        rows = (
            f"({first + row}, {', '.join(self._value(column) for column in _COLUMNS)})"
            for row in range(count)
        )
        return ", ".join(rows)

    def _condition(self) -> str:
        key = self._key()
        value = self._values
        return self._chance.choice(
            (
                f"k = {key}",
                f"k IN ({key}, {self._key()})",
                f"k BETWEEN {key} AND {key + 10}",
                f"small = {key % 9}",
                f"r = {value['r']()}",
                f"c = {value['c']()}",
                f"clock > {value['clock']()} AND k < {key}",
                f"at < {value['at']()} AND k < {key}",
                f"moment >= {value['moment']()} AND k < {key}",
                "mood > 'sad' AND dom < 0",
                f"ip <<= inet '10.0.0.0/8' AND k > {key}",
                f"place ~= {value['place']()}",
                f"span @> {key % 9} AND k > {key}",
                f"span = {value['span']()}",
                "dom IS NULL",
            )
        )
