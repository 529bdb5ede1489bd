"""Clients of other encodings than UTF8: all they see of tiered tables is what PostgreSQL shows.

Rows, names of columns and errors are compared as the bytes they come in.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import psycopg
import pytest

from catalog.pg.text_codecs import codec_of
from catalog.pg.types import TEXT
from pgwire_gateway.messages import (
    Bind,
    Execute,
    FrontendMessage,
    Parse,
    Query,
    Sync,
)
from tests.support.dialogues import play, wire
from tests.support.fix_server import Pair
from tests.support.raw_client import RawClient, Shown
from tests.support.servers import Address
from tests.support.tiers import make_tiered

pytestmark = [pytest.mark.server, pytest.mark.turns("encoded_pair")]

SCHEMA = "client_encodings"

SETUP = """
CREATE SCHEMA client_encodings;
SET search_path = client_encodings;
CREATE TYPE mood AS ENUM ('froh', 'müde');
CREATE TABLE t (id integer PRIMARY KEY, v text, w varchar(20), c char(8), n name, j json, b jsonb,
 a text[], m mood, q "char", d numeric(8, 2), z bytea, "größe" integer);
INSERT INTO t SELECT id, v, v, v, v, to_json(ARRAY[v]), to_jsonb(ARRAY[v]),
 ARRAY[v, NULL, 'a,"b"', v || '\\'], 'müde', 'x', 1.5, '\\xff00', id
 FROM (VALUES (1, 'plain'), (2, 'é'), (3, 'щит'), (4, '日本'), (5, 'ß Ä€'), (6, '')) r (id, v);
INSERT INTO t (id) VALUES (7);
CREATE TABLE k (name text PRIMARY KEY, v text CHECK (v <> 'é!'), g text UNIQUE);
INSERT INTO k VALUES ('plain', 'plain', '1'), ('é', 'é', '2'), ('щит', 'щит', '3');
INSERT INTO k VALUES ('日本', '日本', '4');
CREATE TABLE "таблица" ("ключ" integer PRIMARY KEY, "знач" text DEFAULT 'дом');
INSERT INTO "таблица" VALUES (1, 'п€щ'), (2, 'é'), (3, '日本');
CREATE VIEW w AS SELECT "ключ" AS id, "знач" AS v,
 CASE WHEN "знач" = 'п€щ' THEN 'ja' ELSE 'nein' END AS c FROM "таблица";
CREATE TABLE p (id integer, r text, v text, PRIMARY KEY (id, r)) PARTITION BY LIST (r);
CREATE TABLE p_1 PARTITION OF p FOR VALUES IN ('é', 'щит');
CREATE TABLE p_2 PARTITION OF p DEFAULT;
INSERT INTO p VALUES (1, 'é', 'é'), (2, 'щит', 'щит'), (3, '日本', '日本'), (4, 'a', 'b');
CREATE TABLE many (id integer PRIMARY KEY, v text);
INSERT INTO many SELECT g, (ARRAY['é', 'щит', '日本', 'plain'])[g % 4 + 1] || g
 FROM generate_series(1, 3000) g
"""

TABLES = ("t", "k", "таблица", "p_1", "p_2", "many")

COLUMNS = ("v", "w", "c", "n", "j", "b", "a", "q", "d", "z")

WORDS = {
    "LATIN1": "é",
    "WIN1252": "é",
    "LATIN9": "é",
    "WIN1251": "щит",
    "KOI8R": "щит",
    "EUC_JP": "日本",
    "SJIS": "日本",
    "GBK": "日本",
    "GB18030": "日本",
    "UTF8": "日本",
}
"""Encodings, and a word that they have characters for."""

FEW = ("LATIN1", "WIN1251", "SJIS")
"""Those that are looked at whenever tests run."""


@pytest.fixture(scope="module", params=["cold", "hot"])
def encoded_pair(shared_pair: Pair, request: pytest.FixtureRequest) -> Iterator[Pair]:
    for server in (shared_pair.plain, shared_pair.gateway):
        with psycopg.connect(server.conninfo(shared_pair.database), autocommit=True) as client:
            client.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")
            for statement in SETUP.split(";\n"):
                client.execute(statement)  # type: ignore[call-overload]
            if server is shared_pair.gateway:
                make_tiered(client, *TABLES)
                for table in TABLES if request.param == "cold" else ():
                    client.execute(f'ALTER TABLE "{table}" SET (gateway.thaw_rows = 0)')
    yield shared_pair
    for server in (shared_pair.plain, shared_pair.gateway):
        server.execute(f"DROP SCHEMA {SCHEMA} CASCADE", database=shared_pair.database)


@dataclass(frozen=True)
class Bound:
    """A statement with values."""

    text: str
    values: Sequence[str | bytes | None]
    codes: Sequence[int] | None = None
    types: Sequence[int] | None = None
    result_code: int = 0

    def __call__(self, client: RawClient) -> list[Shown]:
        return client.execute(
            self.text,
            self.values,
            codes=self.codes,
            types=self.types,
            result_code=self.result_code,
        )


@dataclass(frozen=True)
class Copied:
    """A COPY FROM STDIN."""

    text: str
    data: str | bytes

    def __call__(self, client: RawClient) -> list[Shown]:
        return client.copy_in(self.text, self.data)


Asked = str | bytes | Callable[[RawClient], list[Shown]]


def shown(server: Address, database: str, encoding: str, asked: Sequence[Asked]) -> list[object]:
    options = {"client_encoding": encoding, "options": f"-c search_path={SCHEMA}"}
    with RawClient(server, database, **options) as client:
        return [
            (str(one), client.query(one) if isinstance(one, str | bytes) else one(client))
            for one in asked
        ]


def selects(word: str) -> list[Asked]:
    each: list[Asked] = []
    for column in COLUMNS:
        query = f"SELECT id, {column} FROM t WHERE v IN ('{word}', 'plain', '') OR v IS NULL"
        each += [query, Bound(query, [], result_code=1)]
    return [
        *each,
        f"SELECT id, m FROM t WHERE v = '{word}'",
        "SELECT v FROM t WHERE id < 6 ORDER BY id",
        "SELECT id, length(v), octet_length(v) FROM t",
        f"SELECT id AS \"{word}\", '{word}' || v FROM t WHERE v = '{word}'",
        'SELECT "größe" FROM t WHERE id = 1' if "é" in word else "SELECT * FROM t WHERE id = 1",
        f"SELECT '{word}', nothing FROM t",
        f"SELECT '{word}'::integer FROM t",
        "SELECT v::integer FROM t WHERE id = 3",
        f"EXPLAIN (COSTS OFF) SELECT '{word}'",
    ]


def keys(word: str) -> list[Asked]:
    by_name = "SELECT v FROM k WHERE name = $1"
    return [
        f"SELECT * FROM k WHERE name = '{word}'",
        Bound(by_name, [word]),
        Bound(by_name, [word], [1], [TEXT], 1),
        Bound("SELECT name FROM k WHERE v = $1", [word]),
        Bound("SELECT name FROM k WHERE v = ANY ($1)", [f'{{"{word}",x}}']),
        Bound(by_name, [b"\x81\x98\xff"]),
        Bound(by_name, [b"\x81\x98\xff"], [1], [TEXT]),
        b"SELECT '\x81\x8d\x98\xff' FROM k",
        f"INSERT INTO k VALUES ('new {word}', '{word}', '{word}') RETURNING *",
        Bound("UPDATE k SET v = $1 WHERE name = $2 RETURNING v", [f"{word}+", f"new {word}"]),
        f"UPDATE k SET v = v || '{word}' WHERE name = '{word}' RETURNING *",
        f"INSERT INTO k VALUES ('{word}', 'x')",
        f"INSERT INTO k VALUES ('other', 'x', '{word}')",
        "INSERT INTO k VALUES ('other', chr(233) || '!')",
        f"INSERT INTO k VALUES ('new {word}', '') ON CONFLICT (name) DO UPDATE SET v = '{word}'",
        (
            f"MERGE INTO k USING (VALUES ('new {word}', '{word}m'), ('2 {word}', '')) s (a, b)"
            " ON s.a = k.name WHEN MATCHED THEN UPDATE SET v = s.b"
            " WHEN NOT MATCHED THEN INSERT VALUES (s.a, s.b)"
        ),
        f"SELECT * FROM k WHERE name LIKE '% {word}'",
        f"DELETE FROM k WHERE name LIKE '% {word}' RETURNING *",
        f"UPDATE k SET v = '{word}' WHERE name = '{word}'",
        f"PREPARE q AS SELECT v FROM k WHERE name = $1 OR v = '{word}'",
        f"EXECUTE q('{word}')",
        "SELECT count(*), sum(octet_length(v)) FROM k",
    ]


def bulk(word: str) -> list[Asked]:
    size = "SELECT count(*), sum(length(v)), sum(octet_length(v)) FROM many"
    return [
        "BEGIN",
        f"UPDATE many SET v = v || '{word}' WHERE v LIKE '{word}%' RETURNING v",
        size,
        f"UPDATE many SET v = '{word}' WHERE id < 3 RETURNING id",
        f"INSERT INTO many SELECT id + 10000, v || '{word}' FROM many WHERE id < 1500",
        size,
        f"DELETE FROM many WHERE v LIKE '{word}%' RETURNING id, v",
        "DELETE FROM many WHERE id < 100 RETURNING v",
        "ROLLBACK",
        "BEGIN",
        (
            f"CREATE TEMPORARY TABLE tt ON COMMIT DROP AS SELECT id, v || '{word}' AS v FROM many"
            " WHERE id < 50"
        ),
        "UPDATE many SET v = tt.v FROM tt WHERE tt.id = many.id",
        "INSERT INTO many SELECT id + 20000, v FROM tt",
        size,
        (
            "MERGE INTO many USING (SELECT * FROM many WHERE id < 2000) s ON s.id = many.id"
            f" WHEN MATCHED AND s.v LIKE '{word}%' THEN UPDATE SET v = s.v || '{word}'"
            " WHEN MATCHED AND s.id % 7 = 0 THEN DELETE"
        ),
        size,
        "ROLLBACK",
        "SELECT id, v, c FROM w WHERE id = 1",
        "SELECT id, c FROM w",
        f"SELECT id, v FROM w WHERE v = '{word}'",
        f"SELECT * FROM p WHERE r = '{word}'",
        Bound("SELECT id, v FROM p WHERE r = $1", [word]),
        "SELECT r FROM p",
        "BEGIN",
        f"INSERT INTO p VALUES (10, '{word}', '{word}'), (11, 'b', '{word}') RETURNING *",
        Bound("UPDATE p SET v = $1 WHERE r = $2 AND id = 10", [word * 2, word]),
        f"UPDATE p SET r = 'x', v = v || '{word}' WHERE r = '{word}'",
        Copied("COPY p FROM STDIN", f"20\t{word}\t{word}\n21\tb\t{word}\n"),
        "SELECT id, octet_length(r), octet_length(v) FROM p",
        "ROLLBACK",
    ]


def copies(word: str) -> list[Asked]:
    rows = f"SELECT id, v, a FROM t WHERE v IN ('{word}', 'plain') ORDER BY id"
    return [
        f"COPY ({rows}) TO STDOUT",
        f"COPY ({rows}) TO STDOUT (FORMAT csv, HEADER, FORCE_QUOTE *, NULL '{word}')",
        f"COPY ({rows}) TO STDOUT (FORMAT binary, ENCODING 'UTF8')",
        f"COPY ({rows}) TO STDOUT (ENCODING 'utf-8')",
        "COPY (SELECT id, v FROM t ORDER BY id) TO STDOUT",
        "COPY (SELECT id, v FROM t ORDER BY id) TO STDOUT (ENCODING 'win1251', FORMAT csv)",
        "COPY t TO STDOUT (ENCODING 'none')",
        "BEGIN",
        Copied("COPY k (name, v) FROM STDIN", f"c1 {word}\t{word}\n"),
        Copied("COPY k (name, v) FROM STDIN (FORMAT csv, ENCODING 'UTF8')", "c2,€щ日\n".encode()),
        "SELECT name, octet_length(v) FROM k WHERE name LIKE 'c%'",
        "ROLLBACK",
        Copied("COPY k (name, v) FROM STDIN", b"c3 \x81\xff\t\xfe\n"),
        Copied("COPY k (name, v) FROM STDIN (ENCODING 'UTF8')", b"c4 \xff\t\xfe\n"),
        "DELETE FROM k WHERE name LIKE 'c%'",
    ]


def transactions(word: str) -> list[Asked]:
    row = f"SELECT v FROM k WHERE name = '{word}'"
    return [
        "BEGIN",
        f"SELECT '{word}', nothing FROM k",
        f"SELECT '{word}'",
        "ROLLBACK",
        row,
        "BEGIN",
        "SAVEPOINT a",
        "SELECT v FROM t WHERE id < 6",
        "ROLLBACK TO a",
        row,
        "DECLARE c CURSOR FOR SELECT v FROM t WHERE id < 5 ORDER BY id",
        "FETCH 1 FROM c",
        "SET LOCAL client_encoding = 'WIN1251'",
        "MOVE 1 FROM c",
        "SELECT v FROM t WHERE id = 3",
        "COMMIT",
        row,
        "BEGIN; SET client_encoding = 'UTF8'; SELECT v FROM t",
        "ROLLBACK",
        row,
        "SET client_encoding = 'UTF8'",
        "SELECT v FROM t",
        "RESET client_encoding",
        row,
    ]


@pytest.mark.parametrize("asked", [selects, keys, bulk, copies, transactions])
@pytest.mark.parametrize(
    "encoding",
    [one if one in FEW else pytest.param(one, marks=pytest.mark.exhaustive) for one in WORDS],
)
def test_a_client_of_another_encoding_sees_what_postgresql_shows(
    encoded_pair: Pair, encoding: str, asked: Callable[[str], list[Asked]]
) -> None:
    statements = asked(WORDS[encoding])
    seen, expected = (
        shown(server, encoded_pair.database, encoding, statements)
        for server in (encoded_pair.gateway, encoded_pair.plain)
    )
    assert seen == expected


def bound(encoding: str, statement: str, *values: str, portal: str = "", code: int = 0) -> bytes:
    codec = codec_of(encoding) or ""
    given = tuple(value.encode(codec) for value in values)
    return Bind(portal, statement, (code,), given, (code,)).encode(codec)


def parsed(encoding: str, name: str, text: str) -> bytes:
    return Parse(name, text, ()).encode(codec_of(encoding) or "")


def to(encoding: str) -> Query:
    return Query(f"SET client_encoding = '{encoding}'")


ROWS = "SELECT v FROM t WHERE id IN (1, 2, 5) ORDER BY id"

WAITING: dict[str, list[FrontendMessage | bytes]] = {
    **{
        f"a portal, format {code}": [
            Query("BEGIN"),
            to("LATIN1"),
            parsed("LATIN1", "s", ROWS),
            bound("LATIN1", "s", portal="p", code=code),
            *(Execute("p", 1), Sync(), to("UTF8"), Execute("p", 1), Sync(), to("WIN1252")),
            *(Execute("p", 0), Sync(), Query("ROLLBACK")),
        ]
        for code in (0, 1)
    },
    **{
        f"parameters, format {code}": [
            Query("BEGIN"),
            to("LATIN1"),
            parsed("LATIN1", "s", "SELECT id, $1::text, v FROM t WHERE v = $1"),
            bound("LATIN1", "s", "é", portal="p", code=code),
            *(Sync(), to("UTF8"), Execute("p", 0), Sync(), Query("ROLLBACK")),
        ]
        for code in (0, 1)
    },
    "a cursor that is held": [
        Query("BEGIN"),
        to("LATIN1"),
        Query(f"DECLARE c CURSOR WITH HOLD FOR {ROWS}"),
        *(Query("FETCH 2 FROM c"), to("UTF8"), Query("COMMIT"), Query("FETCH 1 FROM c")),
        *(Query("CLOSE c"), to("UTF8")),
    ],
    "a FETCH": [
        Query("BEGIN"),
        to("LATIN1"),
        Query(f"DECLARE c CURSOR FOR {ROWS}"),
        parsed("LATIN1", "f", "FETCH ALL FROM c"),
        bound("LATIN1", "f", portal="p"),
        *(Execute("p", 2), Sync(), to("UTF8"), Execute("p", 0), Sync(), Query("ROLLBACK")),
    ],
    "a statement": [
        to("UTF8"),
        parsed("UTF8", "näme", "SELECT '€é' AS e, v FROM t WHERE id = $1"),
        Sync(),
        *(bound("UTF8", "näme", "2"), Execute("", 0), Sync(), to("WIN1252")),
        *(bound("WIN1252", "näme", "5"), Execute("", 0), Sync(), to("LATIN1")),
        *(bound("LATIN1", "näme", "2"), Execute("", 0), Sync(), to("UTF8")),
    ],
    "statements of one string": [
        Query(f"SET client_encoding = 'WIN1252'; {ROWS}; SET client_encoding = 'UTF8'; {ROWS}")
    ],
}


@pytest.mark.parametrize("messages", WAITING.values(), ids=WAITING)
def test_what_waits_for_the_client_follows_its_encoding(
    encoded_pair: Pair, messages: list[FrontendMessage | bytes]
) -> None:
    traces = []
    for server in (encoded_pair.gateway, encoded_pair.plain):
        with wire(server, encoded_pair.database) as client:
            path = Query(f"SET search_path = {SCHEMA}")
            traces.append(play(client, [path, *messages]))
    assert traces[0] == traces[1]


def test_parameters_that_are_not_in_the_new_encoding_are_refused(encoded_pair: Pair) -> None:
    with wire(encoded_pair.gateway, encoded_pair.database) as client:
        path = Query(f"SET search_path = {SCHEMA}")
        statement = parsed("UTF8", "s", "SELECT length($1) FROM t WHERE v = $1")
        value = bound("UTF8", "s", "щит", portal="p")
        begun = [path, Query("BEGIN"), statement, value, Sync(), to("LATIN1")]
        assert "ErrorResponse" not in play(client, begun)
        assert '"22P05"' in play(client, [Execute("p", 0), Sync()])


@pytest.mark.parametrize("encoding", ["EUC_KR", "JOHAB"])
def test_encodings_that_are_not_converted_are_refused(encoded_pair: Pair, encoding: str) -> None:
    asked = [
        "SELECT v FROM t",
        "COPY (SELECT v FROM t) TO STDOUT",
        "UPDATE k SET v = v",
        "SELECT 1",
    ]
    refusal = f'client encoding "{encoding}" is not supported on journaled tables'.encode()
    seen = shown(encoded_pair.gateway, encoded_pair.database, encoding, asked)
    assert [refusal in str(one).encode() for one in seen] == [True, True, True, False]
