"""Random statements of a history: what applications send to tables, in an order that nobody chose.

Nothing here depends on a clock, on places of rows, or on the order of rows without ORDER BY, so
that two servers which are right answer alike.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tests.support import history_kinds
from tests.support.history_cursors import CursorStatements
from tests.support.history_kinds import KindStatements

KEYS: Final = 160
"""Keys are drawn from so many, so that statements meet each other's rows."""

LARGE_BYTES: Final = 300_000

HUGE_BYTES: Final = 5_000_000

SETTINGS: Final = (
    ("datestyle", ("ISO, MDY", "SQL, DMY", "German", "Postgres, MDY")),
    ("intervalstyle", ("postgres", "iso_8601", "sql_standard")),
    ("timezone", ("UTC", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe")),
    ("bytea_output", ("hex", "escape")),
    ("extra_float_digits", ("1", "0", "-3")),
    ("array_nulls", ("on", "off")),
)
"""What the text of values depends on."""

SCHEMA: Final = (
    """CREATE TABLE h (
        id integer PRIMARY KEY, n integer, big bigint, amount numeric(12,2), free numeric,
        label text, at timestamptz, day date, flag boolean, f double precision, u uuid,
        raw bytea, tags text[], doc jsonb, span interval, CHECK (n <> 13))""",
    "CREATE TABLE pairs (a integer, b text, c integer UNIQUE, d numeric, PRIMARY KEY (a, b))",
    "CREATE TABLE bare (n integer, label text, day date)",
    """CREATE TABLE child (
        k bigint PRIMARY KEY, h integer REFERENCES h ON DELETE CASCADE, v integer)""",
    *history_kinds.SCHEMA,
)
TABLES: Final = ("h", "pairs", "bare", "child", "kinds")
PARTITIONED: Final = ("parts",)
"""Those that are in partitions."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement."""

    sql: str
    copied: str | None = None
    """Lines for COPY FROM STDIN."""
    parameters: tuple[str | None, ...] = ()
    """Values for what is written as ``%s``; with any the extended protocol is spoken."""


Source = Callable[["Statements"], Statement]


class Statements:
    """A source of random statements."""

    def __init__(self, chance: random.Random) -> None:
        """Draw from a source of chance."""
        self._chance = chance
        self._kind_statements = KindStatements(chance)
        self._cursor_statements = CursorStatements(chance)
        self.columns = 0
        """How many columns have been added."""
        self.constraints = 0
        """How many constraints have been added."""

    def next(self, *, definitions: bool) -> Statement:
        """Return a statement."""
        kinds, weights = zip(*(_KINDS + (_DEFINITIONS if definitions else ())), strict=True)
        (kind,) = self._chance.choices(kinds, weights)
        drawn: Statement = kind(self)
        return drawn

    def cursor(self, opened: Sequence[str], *, in_transaction: bool) -> Statement:
        """Return a statement on one of the session's cursors, or one that opens another."""
        return Statement(self._cursor_statements.next(opened, in_transaction=in_transaction))

    def setting(self) -> str:
        """Return a SET of what texts depend on."""
        name, values = self._chance.choice(SETTINGS)
        return f"SET {name} TO {self._chance.choice(values)!r}"

    # values -------------------------------------------------------------------------------------

    def _key(self) -> int:
        return self._chance.randrange(KEYS)

    def _flip(self, share: float) -> bool:
        return self._chance.random() < share

    def _text(self) -> str:
        if self._flip(0.01):
            most = HUGE_BYTES if self._flip(0.03) else LARGE_BYTES
            return f"repeat('{self._chance.choice('xé')}', {self._chance.randrange(most)})"
        words = (
            "",
            "a",
            "O''Brien",
            "ü€😀",
            " padded ",
            "NULL",
            "\\N",
            "{1,2}",
            'a,b"c',
            "$1",
            "tab\tnew\nline",
        )
        return f"'{self._chance.choice(words)}'"

    def _value(self, column: str) -> str:
        if column != "id" and self._flip(0.12):
            return "NULL"
        draw = self._chance
        year = draw.choice((1, 1583, 1969, 2000, 2024, 9999))
        day = f"{year:04}-{draw.randint(1, 12):02}-{draw.randint(1, 28):02}"
        made: dict[str, Callable[[], str]] = {
            "n": lambda: str(draw.choice((0, 1, -1, 13, 14, draw.randint(-(10**6), 10**6)))),
            "big": lambda: str(
                draw.choice((0, 2**63 - 1, -(2**63) + 1, draw.randint(-(10**15), 10**15)))
            ),
            "amount": lambda: f"{draw.randint(-(10**9), 10**9)}::numeric / 100",
            "free": lambda: draw.choice(
                ("0", "1.10", "1.1", "-0.000", "123456789012345678.90", "1e-20", "3")
            ),
            "label": self._text,
            "at": lambda: (
                f"timestamptz '{day} {draw.randint(0, 23):02}:30:15.{draw.randrange(10**6):06}+00'"
            ),
            "day": lambda: f"date '{day}'",
            "flag": lambda: draw.choice(("true", "false")),
            "f": lambda: (
                draw.choice(("0", "'-0'", "'NaN'", "'Infinity'", "0.1", "1e300", "-2.5e-7"))
                + "::float8"
            ),
            "u": lambda: f"'{draw.getrandbits(128):032x}'::uuid",
            "raw": lambda: f"'\\x{draw.getrandbits(8 * 5):010x}'::bytea",
            "tags": lambda: (
                draw.choice(("'{}'", "'{a,NULL,\"\"}'", '\'{"NULL","a b"}\'')) + "::text[]"
            ),
            "doc": lambda: (
                draw.choice(
                    ("'{}'", '\'{"a": [1, null, "x"]}\'', "'1.10'", "'\"\\u00e9\"'", "'null'")
                )
                + "::jsonb"
            ),
            "span": lambda: (
                f"interval '{draw.randint(-40, 40)} months {draw.randint(-9, 9)} days 0.5 seconds'"
            ),
        }
        return made[column]() if column in made else str(self._key())

    def _row(self, key: int) -> str:
        return f"({key}, {', '.join(self._value(column) for column in _COLUMNS)})"

    def _condition(self) -> str:
        low = self._key()
        return self._chance.choice(
            (
                f"id = {low}",
                f"id = {low}",
                f"id IN ({low}, {self._key()}, {self._key()})",
                f"id BETWEEN {low} AND {low + self._chance.choice((1, 5, 40))}",
                f"n % 7 = {low % 7}",
                f"label = {self._text()}",
                f"amount > {low * 1000} AND flag",
                "day IS NULL",
                f"id IN (SELECT c FROM pairs WHERE a < {low % 8})",
                f"EXISTS (SELECT FROM child WHERE child.h = h.id AND v < {low % 30})",
            )
        )

    def _assignment(self) -> str:
        column = self._chance.choice(_COLUMNS)
        return self._chance.choice(
            (
                f"{column} = {self._value(column)}",
                "n = coalesce(n, 0) % 1000 + 1",
                "amount = coalesce(amount, 0) / 2, label = left(label, 40) || '+'",
                f"{column} = {self._value(column)}, flag = NOT flag",
            )
        )

    # statements ---------------------------------------------------------------------------------

    def _insert(self) -> Statement:
        count = self._chance.choice((1, 1, 1, 2, 5, 30))
        first = self._key()
        rows = ", ".join(self._row(first + offset) for offset in range(count))
        conflict = self._chance.choice(
            (
                "",
                "",
                " ON CONFLICT DO NOTHING",
                " ON CONFLICT (id) DO UPDATE SET n = excluded.n, label = h.label || 'u'",
                " ON CONFLICT (id) DO UPDATE SET amount = 1 WHERE h.flag",
            )
        )
        returning = self._chance.choice(("", "", " RETURNING id, n", " RETURNING *"))
        return Statement(f"INSERT INTO h ({_NAMES}) VALUES {rows}{conflict}{returning}")

    def _insert_query(self) -> Statement:
        first, count = self._key(), self._chance.choice((3, 40, 120, 500))
        first += self._chance.choice((0, KEYS, 10 * KEYS))
        return Statement(
            "INSERT INTO h (id, n, label, amount, day) SELECT g, g % 100 + 14, 'made ' || g,"
            " g / 4.0, date '2024-01-01' + g % 365"
            f" FROM generate_series({first}, {first + count}) g"
        )

    def _insert_selected(self) -> Statement:
        low = self._key()
        return Statement(
            "INSERT INTO bare SELECT n, left(label, 30), day FROM h"
            f" WHERE id BETWEEN {low} AND {low + 30}"
        )

    def _update(self) -> Statement:
        returning = self._chance.choice(("", "", " RETURNING id, old.n, new.n", " RETURNING h.*"))
        return Statement(f"UPDATE h SET {self._assignment()} WHERE {self._condition()}{returning}")

    def _update_all(self) -> Statement:
        return Statement("UPDATE h SET n = coalesce(n, 0) % 1000 + 14 WHERE n IS DISTINCT FROM 12")

    def _move(self) -> Statement:
        low, far = self._key(), self._chance.choice((1, -1, 7, KEYS, 10 * KEYS))
        high = low + self._chance.choice((0, 0, 4))
        if abs(far) <= high - low:
            # Whether a row is in the way of another depends on which moves first.
            high = low
        return Statement(f"UPDATE h SET id = id + {far} WHERE id BETWEEN {low} AND {high}")

    def _update_from(self) -> Statement:
        return Statement(
            "UPDATE h SET n = p.c, label = p.b FROM pairs p"
            f" WHERE p.c = h.id AND p.a = {self._key() % 8}"
        )

    def _delete(self) -> Statement:
        returning = self._chance.choice(("", "", " RETURNING id"))
        return Statement(f"DELETE FROM h WHERE {self._condition()}{returning}")

    def _merge(self) -> Statement:
        low = self._key()
        source = self._chance.choice(
            (
                f"(SELECT c AS id, a AS n FROM pairs WHERE c BETWEEN {low} AND {low + 20})",
                f"(VALUES ({low}, 1), ({low + 1}, 2), ({low + KEYS}, 3))",
                f"(SELECT g, g % 50 FROM generate_series({low}, {low + 60}) g)",
            )
        )
        return Statement(
            f"MERGE INTO h USING {source} AS s (id, n) ON h.id = s.id"
            " WHEN MATCHED AND s.n % 5 = 0 THEN DELETE"
            " WHEN MATCHED AND h.n IS NOT NULL THEN UPDATE SET n = s.n, label = 'merged'"
            " WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.id, s.n)"
        )

    def _pairs(self) -> Statement:
        a, b, c = self._key() % 8, self._chance.choice(("x", "y", "é", "")), self._key()
        return Statement(
            self._chance.choice(
                (
                    f"INSERT INTO pairs VALUES ({a}, '{b}', {c}, {self._value('free')})",
                    (
                        f"INSERT INTO pairs VALUES ({a}, '{b}', {c}, 0)"
                        " ON CONFLICT (c) DO UPDATE SET d = pairs.c"
                    ),
                    (
                        f"INSERT INTO pairs VALUES ({a}, '{b}', NULL, 0)"
                        " ON CONFLICT (a, b) DO UPDATE SET d = 7.50"
                    ),
                    (
                        "INSERT INTO pairs SELECT g, 's', g, g"
                        f" FROM generate_series({c}, {c + 30}) g ON CONFLICT DO NOTHING"
                    ),
                    f"UPDATE pairs SET c = {c} WHERE a = {a} AND b = '{b}'",
                    f"UPDATE pairs SET d = d + 0.10 WHERE a < {a}",
                    f"DELETE FROM pairs WHERE c BETWEEN {c} AND {c + 9} RETURNING *",
                )
            )
        )

    def _bare(self) -> Statement:
        n = self._key() % 20
        return Statement(
            self._chance.choice(
                (
                    (
                        f"INSERT INTO bare VALUES ({n}, {self._text()}, {self._value('day')}),"
                        f" ({n}, 'twin', NULL)"
                    ),
                    (
                        "INSERT INTO bare SELECT g % 20, 'many', NULL"
                        f" FROM generate_series(1, {self._key()}) g"
                    ),
                    f"UPDATE bare SET label = 'changed' WHERE n = {n}",
                    f"DELETE FROM bare WHERE n = {n}",
                    f"DELETE FROM bare WHERE label = 'many' AND n > {n}",
                )
            )
        )

    def _child(self) -> Statement:
        k = self._chance.randrange(3 * KEYS)
        return Statement(
            self._chance.choice(
                (
                    f"INSERT INTO child VALUES ({k}, {self._key()}, {k % 30})",
                    (
                        f"INSERT INTO child VALUES ({k}, {self._key()}, 1)"
                        " ON CONFLICT (k) DO UPDATE SET v = child.v + 1"
                    ),
                    (
                        f"INSERT INTO child SELECT {k} + id, id, id % 30 FROM h"
                        f" WHERE id BETWEEN {k % KEYS} AND {k % KEYS + 9}"
                    ),
                    f"UPDATE child SET h = {self._key()} WHERE k = {k}",
                    f"DELETE FROM child WHERE v = {k % 30}",
                )
            )
        )

    def _copy(self) -> Statement:
        first, count = self._key(), self._chance.choice((1, 10, 200))
        lines = "".join(f"{first + row}\t{row}\t\\N\tcopied {row}\n" for row in range(count))
        return Statement("COPY h (id, n, big, label) FROM STDIN", copied=lines)

    def _truncate(self) -> Statement:
        return Statement(
            self._chance.choice(("TRUNCATE bare", "TRUNCATE bare, pairs", "TRUNCATE child"))
        )

    def _lock(self) -> Statement:
        how = self._chance.choice(
            ("FOR UPDATE", "FOR SHARE", "FOR NO KEY UPDATE", "FOR UPDATE NOWAIT")
        )
        return Statement(
            f"SELECT id, n FROM h WHERE id IN ({self._key()}, {self._key()}) ORDER BY id {how}"
        )

    def _modifying_with(self) -> Statement:
        low = self._key()
        return Statement(
            f"WITH gone AS (DELETE FROM h WHERE id BETWEEN {low} AND {low + 2} RETURNING id, n)"
            " INSERT INTO bare SELECT n, 'gone', NULL FROM gone"
        )

    def _read(self) -> Statement:
        return Statement(
            self._chance.choice(
                (
                    f"SELECT * FROM h WHERE {self._condition()}",
                    (
                        "SELECT count(*), sum(n), min(day), max(at), sum(amount),"
                        " count(DISTINCT label) FROM h"
                    ),
                    (
                        "SELECT flag, count(*), sum(big::numeric), round(max(free), 9) FROM h"
                        " GROUP BY flag ORDER BY flag"
                    ),
                    (
                        "SELECT h.id, p.b, child.v FROM h JOIN pairs p ON p.c = h.id"
                        " LEFT JOIN child ON child.h = h.id"
                    ),
                    "SELECT * FROM pairs ORDER BY a, b",
                    "SELECT n, label, count(*) FROM bare GROUP BY n, label",
                    f"SELECT * FROM child WHERE h > {self._key()}",
                    "SELECT id, label, f, tags, doc, span FROM h ORDER BY id LIMIT 7 OFFSET 2",
                )
            )
        )

    def _typed(self) -> Statement:
        return Statement(self._kind_statements.typed())

    def _partitioned(self) -> Statement:
        return Statement(self._kind_statements.partitioned())

    def _with_parameters(self) -> Statement:
        """Return a statement of the extended protocol, whose parameters' types are inferred."""
        key, other = str(self._key()), str(self._key())
        word = self._chance.choice(("", "a", "O'Brien", "ü€😀", "NULL", "{1,2}", "%s", None))
        day = self._chance.choice(("2024-02-29", "0001-01-01", None))
        forms: tuple[tuple[str, tuple[str | None, ...]], ...] = (
            ("SELECT * FROM h WHERE id = %s", (key,)),
            ("SELECT id, n, label FROM h WHERE id BETWEEN %s AND %s", (key, other)),
            ("SELECT count(*), min(day) FROM h WHERE label = %s OR day > %s", (word, day)),
            ("SELECT * FROM bare WHERE n = %s AND day IS NOT DISTINCT FROM %s", (key, day)),
            ("UPDATE h SET label = %s, n = %s WHERE id = %s", (word, other, key)),
            ("UPDATE h SET amount = amount + %s WHERE id < %s RETURNING id, amount", ("1.5", key)),
            ("DELETE FROM h WHERE id = %s OR label = %s RETURNING id", (key, word)),
            ("INSERT INTO h (id, n, label, day) VALUES (%s, %s, %s, %s)", (key, other, word, day)),
            (
                (
                    "INSERT INTO h (id, label) VALUES (%s, %s)"
                    " ON CONFLICT (id) DO UPDATE SET label = excluded.label, n = h.n + 1"
                ),
                (key, word),
            ),
            ("INSERT INTO bare VALUES (%s, %s, %s)", (key, word, day)),
            (
                (
                    "INSERT INTO h (id, label) SELECT c, b || %s FROM pairs WHERE c > %s"
                    " ON CONFLICT DO NOTHING"
                ),
                (word, key),
            ),
            (
                "UPDATE kinds SET mood = %s, c = %s, span = %s WHERE k = %s",
                (self._chance.choice(("ok", "happy", None)), "ab", "[2,8)", key),
            ),
            ("SELECT k, c, mood, ip, place FROM kinds WHERE mood = %s", ("happy",)),
            ("UPDATE parts SET v = v + %s WHERE k = %s AND region = %s", ("1", key, "n")),
            ("SELECT * FROM parts WHERE k = %s ORDER BY region", (key,)),
        )
        sql, parameters = self._chance.choice(forms)
        return Statement(sql, parameters=parameters)

    # definitions --------------------------------------------------------------------------------

    def _add_column(self) -> Statement:
        self.columns += 1
        kind = self._chance.choice(
            (
                "integer",
                "integer DEFAULT 7",
                "text DEFAULT 'é, \"x\"'",
                "numeric(8,3)",
                "date DEFAULT '2024-02-29'",
                "text[] DEFAULT '{a,NULL}'",
            )
        )
        table = self._chance.choice(("h", "bare"))
        return Statement(f"ALTER TABLE {table} ADD COLUMN added_{self.columns} {kind}")

    def _drop_column(self) -> Statement:
        number = self._chance.randint(1, max(self.columns, 1))
        table = self._chance.choice(("h", "bare"))
        return Statement(f"ALTER TABLE {table} DROP COLUMN IF EXISTS added_{number}")

    def _rename_column(self) -> Statement:
        number = self._chance.randint(1, max(self.columns, 1))
        table = self._chance.choice(("h", "bare"))
        return Statement(
            f"ALTER TABLE {table} RENAME COLUMN added_{number} TO renamed_{number}_{self._key()}"
        )

    def _type(self) -> Statement:
        table, column, types = self._chance.choice(
            (
                ("h", "n", ("bigint", "integer", "numeric")),
                ("h", "label", ("text", "varchar")),
                ("h", "amount", ("numeric(12,2)", "numeric(14,3)", "numeric")),
                ("bare", "n", ("bigint", "integer", "smallint", "text USING n::text")),
                ("bare", "label", ("varchar(40)", "text", "char(20)")),
                ("pairs", "d", ("numeric(20,4)", "double precision", "numeric")),
                ("kinds", "c", ("char(6)", "char(5)", "text")),
                ("kinds", "small", ("integer", "smallint")),
            )
        )
        kind = self._chance.choice(types)
        return Statement(f"ALTER TABLE {table} ALTER COLUMN {column} TYPE {kind}")

    def _add_constraint(self) -> Statement:
        self.constraints += 1
        table, what = self._chance.choice(
            (
                ("h", "CHECK (n IS NULL OR n > -1000000)"),
                ("h", "CHECK (flag OR n < 900000) NOT VALID"),
                ("bare", "CHECK (day > '1900-01-01')"),
                ("pairs", "UNIQUE (b, c)"),
                ("child", "CHECK (v >= 0)"),
                ("kinds", "CHECK (small < 32767)"),
                ("parts", "CHECK (k >= 0)"),
            )
        )
        return Statement(f"ALTER TABLE {table} ADD CONSTRAINT extra_{self.constraints} {what}")

    def _drop_constraint(self) -> Statement:
        number = self._chance.randint(1, max(self.constraints, 1))
        table = self._chance.choice(("h", "bare", "pairs", "child", "kinds", "parts"))
        return Statement(f"ALTER TABLE {table} DROP CONSTRAINT IF EXISTS extra_{number}")

    def _default(self) -> Statement:
        return Statement(f"ALTER TABLE h ALTER COLUMN n SET DEFAULT {self._key() + 20}")

    def _index(self) -> Statement:
        return Statement("CREATE INDEX ON h (label)")


_COLUMNS: Final = tuple(
    "n big amount free label at day flag f u raw tags doc span".split()  # noqa: SIM905
)
_NAMES: Final = ", ".join(("id", *_COLUMNS))

_KINDS: Final[tuple[tuple[Source, int], ...]] = (
    (Statements._insert, 12),
    (Statements._insert_query, 3),
    (Statements._insert_selected, 2),
    (Statements._update, 14),
    (Statements._update_all, 1),
    (Statements._move, 4),
    (Statements._update_from, 2),
    (Statements._delete, 5),
    (Statements._merge, 3),
    (Statements._pairs, 8),
    (Statements._bare, 6),
    (Statements._child, 6),
    (Statements._copy, 2),
    (Statements._truncate, 1),
    (Statements._lock, 3),
    (Statements._modifying_with, 1),
    (Statements._read, 12),
    (Statements._typed, 10),
    (Statements._partitioned, 8),
    (Statements._with_parameters, 10),
)
"""Kinds of statements, each with how often it is drawn."""

_DEFINITIONS: Final[tuple[tuple[Source, int], ...]] = (
    (Statements._add_column, 2),
    (Statements._drop_column, 1),
    (Statements._rename_column, 1),
    (Statements._default, 1),
    (Statements._index, 1),
    (Statements._type, 1),
    (Statements._add_constraint, 1),
    (Statements._drop_constraint, 1),
)
