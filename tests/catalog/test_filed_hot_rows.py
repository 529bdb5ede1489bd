"""Hot rows that nobody has written since they were made hot are what their files say, or are found.

Values of all types become hot as in a gateway: they are written to a file, read from there, and put
into the catalog table as texts.
"""

import logging
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from catalog.connection.steps import Query
from catalog.hot.hot_keys import Reading, Thawed, Writing
from catalog.journal.layout import column_names
from catalog.results import SnapshotRequest
from pgwire_gateway.config import Config
from pgwire_gateway.rows.text_rows import text_rows
from pgwire_gateway.spark.compactor import Compactor
from pgwire_gateway.spark.lookups import Lookups
from pgwire_gateway.spark.statements import RunningStatement
from pgwire_gateway.spark.warehouse import Warehouse
from pgwire_gateway.upkeep import filed_rows
from pgwire_gateway.upkeep.cold_tables import ColdTables
from pgwire_gateway.upkeep.filed_rows import FiledRows
from pgwire_gateway.upkeep.hot_tables import HotTables
from pgwire_gateway.upkeep.tails import Tails
from pgwire_gateway.wire_types import plain_keys
from tests.gateway.wire_types.samples import GEOMETRIC, SAMPLES
from tests.support.fix_catalog import Client

pytestmark = pytest.mark.catalog

MANY = 1000

OWN = {
    "mood": ("sad", "happy", None),
    "word": ("a", " x ", None),
    "price": ("1.50", "0.00", None),
    "mood[]": ("{sad,NULL}", "{}", None),
}
"""Values of types of users' making."""

TYPES = SAMPLES | GEOMETRIC | OWN

SETUP = (
    "CREATE TYPE mood AS ENUM ('sad', 'happy')",
    "CREATE DOMAIN word AS text",
    "CREATE DOMAIN price AS numeric(8,2)",
)


class Store:
    """Tables with files, and what compares their hot rows with these."""

    def __init__(self, client: Client, administrator: Client, catalog: Any, root: Path) -> None:
        self.client = client
        self.administrator = administrator
        self.catalog = catalog
        warehouse = Warehouse(str(root))
        relations = cast("Any", SimpleNamespace(warehouse=warehouse))
        self.compactor = Compactor(cast("Any", None), relations)
        self.lookups = Lookups(warehouse)
        self.filed = FiledRows(Lookups(warehouse, keeps_groups=False))

    def fill(self, columns: str, *rows: str) -> int:
        """Make a table whose rows are in a file."""
        self.client.run(f"CREATE TABLE t ({columns})")
        for row in rows:
            self.client.insert("t", f"INSERT INTO t VALUES ({row})")
        relid = self.client.relid("t")
        self.flush(relid)
        return relid

    def flush(self, relid: int) -> None:
        """Write the tail of a table without hot rows to a file."""
        session = self.administrator.session
        ColdTables(Config(), self.compactor).flush(session, relid, RunningStatement())

    def stored_keys(self, relid: int) -> list[tuple[object, ...]]:
        """Return the keys of one column that are in the files of a table."""
        snapshot = self.client.snapshot("t").snapshots[relid]
        found = self.compactor.row_versions(snapshot.table, snapshot.segments)
        assert found is not None
        return plain_keys.tuples(found, column_names(snapshot.table.key))

    def flush_hot(self, relid: int) -> None:
        """Write the tail of a table with hot rows to a file."""
        Tails(self.compactor, RunningStatement()).flush(self.administrator.session, relid)

    def count(self, relid: int, key: tuple[object, ...]) -> int:
        """Return how many versions of a row are found in files."""
        found = self.lookups.versions(self.client.snapshot("t").snapshots[relid], [key])
        assert found is not None
        return found.num_rows

    def thaw(self, relid: int, keys: list[tuple[object, ...]]) -> None:
        """Make keys of a table hot."""
        thawing = self.catalog.thawing(self.client.value("SELECT current_database()"))
        assert thawing.warm(relid)
        snapshot = self.client.session.observations.snapshot([SnapshotRequest(relid)])
        stored = snapshot.snapshots[relid]
        found = self.lookups.versions(stored, keys)
        assert found is not None
        present = text_rows(stored.table, found)
        ((heats, epoch, seen),) = self.administrator.run(
            "SELECT heats, epoch, pg_current_snapshot() FROM pg_journal.journals"
            f" WHERE relid = {relid}"
        )
        reading = Reading(int(heats or 0), int(epoch or 0), str(seen))
        assert thawing.thaw(relid, reading, present, []) is Thawed.DONE

    def write(self, relid: int, sql: str, *keys: int) -> None:
        """Announce and run a statement, and commit."""
        call = Writing(relid, tuple((str(key),) for key in keys)).announced(strict=True)
        self.client.session.writes.run_between(
            Query(sql), (), None, began=True, before=[call], commits=True
        )

    def differing(self, relid: int, most: int = MANY) -> list[tuple[str, ...]]:
        return self.filed.differing(self.administrator.session, relid, most)


@pytest.fixture
def store(client, catalog, database, tmp_path) -> Iterator[Store]:
    administrator = Client(catalog.admin(database))
    administrator.run("SET search_path = public")
    yield Store(client, administrator, catalog, tmp_path)
    administrator.session.close()


@pytest.fixture
def falsify(catalog, database) -> Iterator[Callable[[str], None]]:
    """Changes behind the back of the gateway, which nothing captures."""
    opened = Client(catalog.admin(database))
    opened.run("SET search_path = public")
    opened.run("SET session_replication_role = replica")
    yield lambda sql: opened.run(sql) and None
    opened.session.close()


def literal(value: str | None, kind: str) -> str:
    if value is None:
        return "NULL"
    quoted = value.replace("'", "''")
    return f"'{quoted}'::{kind}"


def storable(kind: str, value: str | None) -> bool:
    """Return whether files can hold a value."""
    return value is None or "infinity" not in value or not kind.startswith(("date", "time", "int"))


def fill_with_all_types(store: Store) -> int:
    """Make rows hot that have all sample values of all types in a column of each."""
    kinds = [f"v{number} {kind}" for number, kind in enumerate(TYPES)]
    rows = []
    for number in range(max(map(len, TYPES.values()))):
        values = (
            literal(samples[number], kind)
            if number < len(samples) and storable(kind, samples[number])
            else "NULL"
            for kind, samples in TYPES.items()
        )
        rows.append(", ".join([str(number), *values]))
    relid = store.fill(", ".join(["id integer PRIMARY KEY", *kinds]), *rows)
    store.thaw(relid, [(number,) for number in range(len(rows))])
    return relid


def test_values_of_all_types_are_what_files_say(store, falsify):
    for statement in SETUP:
        store.client.run(statement)
    relid = fill_with_all_types(store)
    for setting in ("timezone = 'Asia/Tokyo'", "datestyle = 'German'", "extra_float_digits = -3"):
        store.administrator.run(f"SET {setting}")
    assert store.differing(relid) == []
    falsify("CREATE TEMPORARY TABLE kept AS TABLE t")
    for number, kind in enumerate(TYPES):
        held = store.administrator.run(f"SELECT id FROM ONLY t WHERE v{number} IS NOT NULL")
        assert held, kind
        falsify(f"UPDATE t SET v{number} = NULL")
        assert sorted(store.differing(relid)) == sorted(held), kind
        falsify(f"UPDATE t SET v{number} = kept.v{number} FROM kept WHERE t.id = kept.id")
    assert store.differing(relid) == []


FORMS = {
    "a scale": ("numeric", "1.5", "1.50"),
    "the sign of zero": ("float8", "0", "-0"),
    "spaces of json": ("json", '{"a":1}', '{"a": 1}'),
    "trailing spaces of a text": ("text", "a", "a "),
    "parts of an interval": ("interval", "1 day", "24:00"),
    "an infinity": ("float8", "Infinity", "-Infinity"),
    "a bound of an array": ("int4[]", "{1}", "[2:2]={1}"),
    "what is NULL in an array": ("text[]", "{NULL}", '{"NULL"}'),
    "what no file can hold": ("date", "2024-02-29", "infinity"),
    "bytes": ("bytea", "\\x00", "\\x0000"),
}
"""Values that PostgreSQL takes for equal, or that look alike, or are in no file."""


def test_values_that_look_alike_are_told_apart(store, falsify):
    for name, (kind, value, other) in FORMS.items():
        relid = store.fill(f"id integer PRIMARY KEY, v {kind}", f"1, {literal(value, kind)}")
        store.thaw(relid, [(1,)])
        assert store.differing(relid) == [], name
        falsify(f"UPDATE t SET v = {literal(other, kind)}")
        assert store.differing(relid) == [("1",)], name
        store.client.run("DROP TABLE t")


KEYS = {
    "bigint": ("1", "-9223372036854775808"),
    "boolean": ("t", "f"),
    "text": ("a", "", "é"),
    "varchar(5)": ("a", "a  "),
    "char(5)": ("a", "abcde"),
    "bytea": ("\\x", "\\x00ff"),
    "date": ("2024-02-29", "0001-12-31 BC"),
    "time": ("24:00", "12:30:00.5"),
    "timestamp": ("2024-02-29 12:34:56.789012", "0001-12-31 23:59:59 BC"),
    "timestamptz": ("2024-02-29 12:34:56.789012+00", "1969-12-31 23:59:59.999999+00"),
    "numeric(12,2)": ("1.5", "-2.25", "0"),
    "uuid": ("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",),
}


def test_keys_of_all_types_are_found_in_files(store, falsify):
    for kind, values in KEYS.items():
        rows = [f"{literal(value, kind)}, {number}" for number, value in enumerate(values)]
        relid = store.fill(f"k {kind} PRIMARY KEY, v integer", *rows)
        keys = store.stored_keys(relid)
        # Decoded as far as a key first, then kept, and halved.
        for key in [*keys, *keys]:
            assert store.count(relid, key) == 1, (kind, key)
        store.thaw(relid, keys)
        assert store.differing(relid) == [], kind
        falsify("UPDATE t SET v = -1")
        assert len(store.differing(relid)) == len(values), kind
        store.client.run("DROP TABLE t")


@pytest.fixture
def hot(store) -> int:
    """Three rows in a file, all hot; one has been changed since."""
    relid = store.fill("a int PRIMARY KEY, b text", "1, 'one'", "2, 'two'", "3, NULL")
    store.thaw(relid, [(1,), (2,), (3,)])
    store.write(relid, "UPDATE t SET b = 'changed' WHERE a = 1", 1)
    return relid


OLDER = "INSERT INTO pg_journal.tail_{0} (c1, c2, version_number) VALUES (3, 'old', '2000-01-01')"

AS_OLDER = "UPDATE t SET b = 'old' WHERE a = 3"

FALSIFIED = {
    "a value": ("UPDATE t SET b = 'false' WHERE a = 2", "2"),
    "a value that is NULL": ("UPDATE t SET b = '' WHERE a = 3", "3"),
    "a row that is gone": ("DELETE FROM t WHERE a = 2", "2"),
    "a row of a key that is not hot": ("INSERT INTO t VALUES (9, 'new')", "9"),
    "a version in the tail that is older than files": (f"{OLDER}; {AS_OLDER}", "3"),
}


@pytest.mark.parametrize("falsified", FALSIFIED)
def test_what_was_falsified_is_found(store, falsify, hot, falsified):
    statements, key = FALSIFIED[falsified]
    assert store.differing(hot) == []
    for statement in statements.format(hot).split("; "):
        falsify(statement)
    assert store.differing(hot) == [(key,)]
    assert store.differing(hot, 0) == []
    check = RunningStatement().check
    session = store.administrator.session
    assert store.filed.all_differing(session, hot, 3, check) == [(key,)]
    assert store.filed.all_differing(session, hot, 5 * filed_rows.AT_ONCE, check) == [(key,)]


def test_what_is_written_later_is_the_tails_to_tell(store, falsify, hot):
    falsify("UPDATE t SET b = 'false' WHERE a = 1")
    assert store.differing(hot) == []


def test_what_was_written_to_files_since_is_compared_with_these(store, falsify, hot):
    store.write(hot, "DELETE FROM t WHERE a = 3", 3)
    store.flush_hot(hot)
    assert store.administrator.run(f"SELECT count(*) FROM pg_journal.tail_{hot}") == [("0",)]
    assert store.differing(hot) == []
    falsify("UPDATE t SET b = 'one' WHERE a = 1")
    falsify("INSERT INTO t VALUES (3, NULL)")
    assert sorted(store.differing(hot)) == [("1",), ("3",)]


def test_rows_of_many_bytes_are_left_out(store, falsify, hot, monkeypatch):
    falsify("UPDATE t SET b = repeat('x', 5000) WHERE a = 2")
    assert store.differing(hot) == [("2",)]
    monkeypatch.setattr(filed_rows, "MOST_BYTES", 4000)
    assert store.differing(hot) == []


def test_what_a_transaction_has_not_committed_is_no_difference(store, other, hot):
    call = Writing(hot, (("2",),)).announced(strict=True)
    other.session.transaction.begin()
    change = Query("UPDATE t SET b = 'later' WHERE a = 2")
    other.session.writes.run_between(change, (), None, began=False, before=[call])
    assert store.differing(hot) == []
    other.session.transaction.commit()
    assert store.differing(hot) == []


# upkeep -------------------------------------------------------------------------------------------


@pytest.fixture
def visit(store, catalog, database, lanes) -> Callable[[], None]:
    """Upkeep that would let rows go cold at each visit."""
    config = Config(hot_rows=0, hot_age_s=0)
    upkeep = HotTables(database, config, catalog, store.filed, lambda *_: None)
    return lambda: upkeep.visit(lanes)


def shown(client: Client) -> tuple[str | None, ...]:
    (row,) = client.run(
        "SELECT state, failures > 0, last_failure, work FROM pg_journal.maintenance"
        " WHERE table_name = 't'"
    )
    return row


def test_upkeep_tells_and_lets_no_row_go_cold(store, falsify, hot, visit, caplog):
    falsify("UPDATE t SET b = 'false' WHERE a = 2")
    with caplog.at_level(logging.ERROR):
        visit()
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert (
        f"1 hot rows of table {hot} are not what its journal says,"
        ' such as that of "public"."t" with key (2)'
    ) in "\n".join(caplog.messages)
    assert shown(store.client) == ("hot", "t", "XX001", None)
    falsify("UPDATE t SET b = 'two' WHERE a = 2")
    visit()
    assert shown(store.client) == ("tiered", "f", None, None)


@pytest.mark.usefixtures("hot")
def test_a_sample_that_is_equal_does_not_end_it(store, falsify, visit, monkeypatch):
    falsify("UPDATE t SET b = 'false' WHERE a = 2")
    visit()
    monkeypatch.setattr("pgwire_gateway.upkeep.hot_tables.FILED_SAMPLE", 0)
    visit()
    assert shown(store.client) == ("hot", "t", "XX001", None)


@pytest.mark.usefixtures("hot")
def test_rows_whose_file_is_lost_stay_hot(store, visit, tmp_path, caplog):
    for segment in tmp_path.rglob("delta-*"):
        shutil.rmtree(segment)
    with caplog.at_level(logging.WARNING):
        visit()
    assert "a data file of the table is missing" in "\n".join(caplog.messages)
    assert store.administrator.run("SELECT count(*) FROM ONLY t") == [("3",)]
