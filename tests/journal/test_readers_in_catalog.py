"""The bookkeeping's own SQL agrees with the law of journals, and finds what a plain model finds.

Controls turn the tie-break of its functions round, and show that the comparison finds it.
"""

import random
from collections.abc import Iterator

import pytest

from catalog.api import Catalog
from catalog.errors import GatewayError
from catalog.journal import layout, order
from catalog.pg import sqlstate
from catalog.results import SnapshotRequest
from catalog.session.connections import CatalogSession
from catalog.upkeep.commits import CommittedVersions
from pgwire_gateway.rows import former_rows
from pgwire_gateway.statements import rollbacks
from pgwire_gateway.wire_types.settling import captured, settle
from pgwire_gateway.wire_types.tails import latest_per_key
from tests.support.fix_catalog import Client, Inspector
from tests.support.journal_histories import Rows, RowVersion, random_history, replay

pytestmark = pytest.mark.catalog

SEEDS = range(25)
TABLE = "CREATE TABLE t (k int PRIMARY KEY, v text)"

COLUMNS = """
SELECT attname, atttypid::int8, atttypmod, attnotnull FROM pg_attribute
 WHERE attrelid = '{}'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""
TABLES = {
    "keyed": "CREATE TABLE t (a int PRIMARY KEY, b numeric(8,2), c varchar(5), d timestamptz)",
    "keyless": "CREATE TABLE t (a int, b numeric(8,2), c varchar(5), d timestamptz)",
}


@pytest.fixture
def administrator(catalog: Catalog, database: str) -> Iterator[Client]:
    session = catalog.admin(database)
    yield Client(session)
    session.close()


# what is said twice -------------------------------------------------------------------------------


def test_the_bookkeeping_says_what_the_law_says(administrator: Client) -> None:
    types = administrator.run(
        "SELECT name, to_regtype(type)::oid::int8, place FROM pg_journal.hidden_columns()"
        " ORDER BY place"
    )
    assert types == [
        (column.name, str(column.type_oid), str(place))
        for place, column in enumerate(layout.HIDDEN_COLUMNS, 1)
    ]
    assert administrator.value("SELECT pg_journal.truncation_mark()") == str(layout.TRUNCATION)
    assert administrator.value("SELECT pg_journal.newest_first('v')") == order.order_by(
        order.OURS, "v"
    )
    for name in (*layout.RESERVED, "version", layout.VERSION.upper(), "c1"):
        is_hidden = administrator.value(f"SELECT pg_journal.is_hidden('{name}')")
        assert (is_hidden == "t") is (name in layout.RESERVED)


def test_the_journal_of_a_table_bears_the_name_that_the_law_says(client: Client) -> None:
    client.run(TABLE)
    client.run("SET gateway.show_journals = on")
    found = client.run("SELECT table_name FROM pg_journal.shown_journals")
    assert found == [(layout.journal_name("t"),)]


@pytest.mark.parametrize("kind", TABLES)
def test_tails_and_journals_are_laid_out_as_the_law_says(
    client: Client, administrator: Client, kind: str
) -> None:
    client.run(TABLES[kind])
    relid = client.relid("t")
    own = administrator.run(COLUMNS.format("public.t"))
    keyed = kind == "keyed"
    hidden = [
        (column.name, str(column.type_oid), str(column.typmod)) for column in layout.HIDDEN_COLUMNS
    ]
    tail = [row[:3] for row in administrator.run(COLUMNS.format(f"pg_journal.tail_{relid}"))]
    named = [(layout.column_name(attnum), *row[1:3]) for attnum, row in enumerate(own, 1)]
    assert tail[:-1] == [*named, *hidden]
    assert tail[-1][0] == "writer"
    journal = [row[:3] for row in administrator.run(COLUMNS.format(f"pg_journal.journal_{relid}"))]
    kept = layout.hidden_names(keyed=keyed)
    assert journal == [row[:3] for row in own] + [row for row in hidden if row[0] in kept]
    snapshot = client.snapshot("t").snapshots[relid]
    assert [str(one.typmod) for one in snapshot.table.columns] == [row[2] for row in own]


# readers ------------------------------------------------------------------------------------------


def fill_tail(administrator: Client, relid: int, history: list[RowVersion]) -> None:
    """Write row versions to a tail as they are, in an order that tells nothing."""
    administrator.run(f"DELETE FROM pg_journal.tail_{relid}")
    for version in history:
        ended = f"pg_journal.moment({version.number})" if version.ends else "NULL"
        administrator.run(
            f"INSERT INTO pg_journal.tail_{relid}"
            f" (c1, c2, {layout.VERSION}, {layout.SUBSEQUENT}) VALUES"
            f" ({version.key}, '{version.value}', pg_journal.moment({version.number}), {ended})"
        )


def shuffled_history(seed: int) -> list[RowVersion]:
    draw = random.Random(seed)  # noqa: S311 - of tests
    history = random_history(draw)
    draw.shuffle(history)
    return history


def turned_round(administrator: Client) -> None:
    """Have a tombstone be newer than a row version of the same number."""
    other = order.order_by(order.OF_OTHERS, "%1$s")
    administrator.run(
        "CREATE OR REPLACE FUNCTION pg_journal.newest_first(source text) RETURNS text"
        f" LANGUAGE sql IMMUTABLE RETURN format('{other}', source)"
    )


def check_disagreements(administrator: Client, relid: int) -> int:
    """Return for how many histories the check of a tail does not find what the model finds."""
    administrator.run("SET session_replication_role = replica")
    found = 0
    for seed in SEEDS:
        history = shuffled_history(seed)
        administrator.run("BEGIN")
        administrator.run("DELETE FROM public.t")
        fill_tail(administrator, relid, history)
        for key, value in replay(history).items():
            administrator.run(f"INSERT INTO public.t VALUES ({key}, '{value}')")
        found += administrator.value(f"SELECT pg_journal.check_tail({relid})") != "0"
        administrator.run("INSERT INTO public.t VALUES (99, 'more')")
        assert administrator.value(f"SELECT pg_journal.check_tail({relid})") != "0"
        administrator.run("ROLLBACK")
    return found


def test_the_check_of_a_tail_agrees_with_the_model(
    client: Client, inspector: Inspector, administrator: Client
) -> None:
    client.run(TABLE)
    assert check_disagreements(administrator, client.relid("t")) == 0


def test_control_the_check_of_a_tail_breaks_ties(
    client: Client, inspector: Inspector, administrator: Client
) -> None:
    client.run(TABLE)
    turned_round(administrator)
    assert check_disagreements(administrator, client.relid("t"))


def key_disagreements(administrator: Client, relid: int) -> int:
    """Return how often a key is taken for there, or not, other than the model says."""
    administrator.run("SET session_replication_role = replica")
    found = 0
    for seed in SEEDS:
        history = shuffled_history(seed)
        current = replay(history)
        administrator.run("BEGIN")
        fill_tail(administrator, relid, history)
        for key in range(13):
            administrator.run("SAVEPOINT s")
            administrator.run(f"INSERT INTO public.t VALUES ({key}, 'new')")
            try:
                administrator.run(
                    "SELECT pg_journal.check_keys(j, ARRAY(SELECT ctid FROM ONLY public.t), true)"
                    f" FROM pg_journal.journals j WHERE j.relid = {relid}"
                )
                is_there = False
            except GatewayError as error:
                if error.sqlstate != sqlstate.UNIQUE_VIOLATION:
                    raise
                is_there = True
            found += is_there is not (key in current)
            administrator.run("ROLLBACK TO s")
        administrator.run("ROLLBACK")
    return found


def test_the_check_of_keys_agrees_with_the_model(client: Client, administrator: Client) -> None:
    client.run(TABLE)
    assert key_disagreements(administrator, client.relid("t")) == 0


def test_control_the_check_of_keys_breaks_ties(client: Client, administrator: Client) -> None:
    client.run(TABLE)
    turned_round(administrator)
    assert key_disagreements(administrator, client.relid("t"))


def former_disagreements(administrator: Client) -> int:
    """Return how often PostgreSQL does not find what rows were before as the model does.

    The query is over a whole journal, with the numbers of successors.
    """
    administrator.run(
        f"CREATE TEMPORARY TABLE j (k int, v text, {layout.VERSION} timestamptz,"
        f" {layout.SUBSEQUENT} timestamptz)"
    )
    found = 0
    table = administrator.snapshot("public.t").snapshots[administrator.relid("public.t")].table
    former = rollbacks._Former(table, "former")
    for seed in SEEDS:
        draw = random.Random(seed)  # noqa: S311 - of tests
        history = random_history(draw)
        administrator.run("DELETE FROM j")
        for version in history:
            later = [
                other.number
                for other in history
                if other.key == version.key
                and (other.number, not other.ends) > (version.number, not version.ends)
            ]
            successor = version.number if version.ends else min(later, default=None)
            ended = "NULL" if successor is None else f"pg_journal.moment({successor})"
            administrator.run(
                f"INSERT INTO j VALUES ({version.key}, '{version.value}',"
                f" pg_journal.moment({version.number}), {ended})"
            )
        numbers = tuple(sorted(draw.sample(sorted({v.number for v in history}), 2)))
        written = CommittedVersions(table.relid, numbers)
        rows = administrator.run(
            f"SELECT k, v, {former_rows.GONE} FROM ("
            + rollbacks._former_rows(former, "j", written)
            + ") r"
        )
        told = {int(k or 0): None if gone == "t" else v for k, v, gone in rows}
        expected = {}
        for key in {version.key for version in history if version.number in numbers}:
            first = min(v.number for v in history if v.key == key and v.number in numbers)
            expected[key] = replay(v for v in history if v.number < first).get(key)
        found += told != expected
    return found


def test_what_rows_were_agrees_with_the_model(client: Client, administrator: Client) -> None:
    client.run(TABLE)
    assert former_disagreements(administrator) == 0


def test_control_what_rows_were_depends_on_ties(
    client: Client, administrator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.run(TABLE)
    monkeypatch.setattr(rollbacks, "order_of", lambda **_: order.OF_OTHERS)
    assert former_disagreements(administrator)


# what is captured ---------------------------------------------------------------------------------


def statement(draw: random.Random) -> str:
    """Return a statement of the kinds that histories are made of."""
    a, b = draw.sample(range(12), 2)
    return draw.choice(
        [
            (
                f"INSERT INTO t VALUES ({a}, 'new'), ({b}, 'new')"
                " ON CONFLICT (k) DO UPDATE SET v = 'x'"
            ),
            f"UPDATE t SET v = v || '.' WHERE k BETWEEN {min(a, b)} AND {max(a, b)}",
            f"UPDATE t SET k = k + 100 WHERE k = {a}",
            f"DELETE FROM t WHERE k IN ({a}, {b})",
            (
                f"MERGE INTO t USING (VALUES ({a}), ({b})) s (k) ON t.k = s.k"
                " WHEN MATCHED AND t.v LIKE '%.' THEN DELETE"
                " WHEN MATCHED THEN UPDATE SET k = t.k + 200, v = 'merged'"
                " WHEN NOT MATCHED THEN INSERT VALUES (s.k, 'inserted')"
            ),
            (
                f"DO $$ BEGIN DELETE FROM t WHERE k = {a};"
                f" INSERT INTO t VALUES ({a}, 'again') ON CONFLICT DO NOTHING;"
                f" UPDATE t SET k = k + 300 WHERE k = {b}; END $$"
            ),
            # Rows that change places.
            f"UPDATE t SET k = {a + b} - k WHERE k IN ({a}, {b})",
            "TRUNCATE t" if draw.random() < 0.2 else "SELECT 1",
        ]
    )


def captured_rows(administrator: Client, relid: int) -> Rows:
    """Return the rows that the model finds in a tail."""
    versions = administrator.run(
        f"SELECT c1, c2, pg_journal.micros({layout.VERSION}),"
        f" {layout.SUBSEQUENT} IS NOT NULL, {layout.IDENTITY} FROM pg_journal.tail_{relid}"
    )
    marks = [int(row[2] or 0) for row in versions if row[4] == str(layout.TRUNCATION)]
    return replay(
        RowVersion(int(k or 0), v or "", int(number or 0), ends == "t")
        for k, v, number, ends, mark in versions
        if mark is None and int(number or 0) > max(marks, default=0)
    )


def settled_rows(session: CatalogSession, relid: int) -> Rows:
    """Return the rows that readers of journals find in a captured tail."""
    result = session.observations.snapshot([SnapshotRequest(relid)])
    snapshot = result.snapshots[relid]
    tail = settle(snapshot, captured(snapshot.table, result.tails[relid]), lambda: None)
    latest = latest_per_key(tail, layout.identity_names(snapshot.table.key))
    return {row["c1"]: row["c2"] for row in latest.to_pylist() if row[layout.SUBSEQUENT] is None}


def test_what_is_captured_agrees_with_the_model(
    client: Client, inspector: Inspector, administrator: Client
) -> None:
    client.run(TABLE)
    relid = client.relid("t")
    draw = random.Random(9)  # noqa: S311 - of tests
    for _ in range(60):
        client.run("BEGIN")
        for _ in range(draw.randint(1, 3)):
            client.run("SAVEPOINT s")
            try:
                client.run(statement(draw))
            except GatewayError as error:
                if error.sqlstate != sqlstate.UNIQUE_VIOLATION:
                    raise
                client.run("ROLLBACK TO s")
        client.run("COMMIT")
        held = {int(k or 0): v for k, v in client.run("SELECT k, v FROM t")}
        assert captured_rows(administrator, relid) == held
        assert settled_rows(client.session, relid) == held
        client.session.transaction.rollback()
        assert inspector.differences() == {}
