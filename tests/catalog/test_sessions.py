"""A client's session: analysis, streaming, COPY, notices, transactions and failures."""

import os
import re
import socket
import time

import pytest

from catalog.connection import streams
from catalog.connection.libpq_results import rows_of
from catalog.errors import CatalogError, CatalogUnavailableError, GatewayError, UnknownOutcomeError
from catalog.results import SnapshotRequest
from catalog.session import names
from tests.support.fix_catalog import cancel_when_waiting

pytestmark = pytest.mark.catalog


def test_analysis_names_types_columns_and_the_rewritten_tree(client):
    client.run("CREATE TABLE t (a int PRIMARY KEY, b varchar(7))")
    client.run("CREATE VIEW v AS SELECT a AS x, b FROM t")
    analysis = client.session.analyses.analyse("SELECT b || $1 AS c, b FROM v WHERE x = $2")
    assert analysis.parameter_oids == (25, 23)
    c, b = analysis.columns
    assert (c.name, c.type_oid, b.table_oid, b.attnum, b.typmod) == (
        "c",
        25,
        client.relid("v"),
        2,
        11,
    )
    assert analysis.tree.startswith("({QUERY :commandType 1")
    assert f":relid {client.relid('t')} " in analysis.tree


def test_trees_have_no_line_breaks_that_stand_for_blanks(client):
    """PostgreSQL breaks lines wherever they are full; what is looked for is not to be parted."""
    for width in range(80):
        padding = "+".join("1" * (width % 9 + 1)) + f'"{"x" * (1 + width // 2)}"'
        analysis = client.session.analyses.analyse(f"SELECT {padding}, current_database() AS d")
        assert ":funcid 861 " in analysis.tree
        assert ":resname d " in analysis.tree
        assert "\n" not in analysis.tree


@pytest.mark.parametrize("second", ["two or more words", "größere Größen für öde Ställe"])
def test_names_with_blanks_are_not_parted_in_trees(client, second):
    for width in range(1, 60):
        first = "x" * width
        analysis = client.session.analyses.analyse(
            f'WITH "{first}" AS (SELECT 1), "{second}" AS (SELECT 2)'
            f' SELECT FROM "{first}", "{second}"'
        )
        assert "\n" not in analysis.tree


@pytest.mark.parametrize(
    "name",
    ["(" * 63, "(" * 39, "x" + "(" * 30 + "é" * 16, "two\nlines"],
    ids=["longer than a line", "as long as a line", "broken in a character", "two lines"],
)
def test_words_of_trees_are_whole(client, name):
    analysis = client.session.analyses.analyse(f'SELECT 1 AS "{name}"')
    printed = re.sub(r"([(\n])", r"\\\1", name)
    assert f":resname {printed} " in analysis.tree


@pytest.mark.parametrize("sql", ["SHOW ALL", "BEGIN", "CREATE TABLE x (a int)", "EXPLAIN SELECT 1"])
def test_utility_statements_have_no_tree(client, sql):
    assert client.session.analyses.analyse(sql).tree is None


def test_analysis_leaves_no_trace_in_a_transaction(client):
    client.session.transaction.begin()
    client.run("SET client_min_messages = warning")
    client.session.analyses.analyse("SELECT 1")
    assert client.value("SHOW client_min_messages") == "warning"
    assert client.value("SHOW debug_print_rewritten") == "off"
    client.session.transaction.commit()
    assert client.value("SHOW client_min_messages") == "warning"
    assert client.notices == []


def test_an_error_of_analysis_has_its_position_and_leaves_the_session_idle(client):
    with pytest.raises(CatalogError) as caught:
        client.session.analyses.analyse("SELECT nope")
    assert (caught.value.sqlstate, caught.value.position) == ("42703", 8)
    assert client.session.transaction_status == "I"
    assert client.value("SHOW debug_print_rewritten") == "off"


def test_in_a_failed_transaction_only_its_end_can_be_analysed(client):
    client.session.transaction.begin()
    client.sqlstate("SELECT 1/0")
    assert client.session.transaction_status == "E"
    with pytest.raises(CatalogError) as caught:
        client.session.analyses.analyse("SELECT 1")
    assert caught.value.sqlstate == "25P02"
    client.session.analyses.analyse("ROLLBACK")
    client.session.transaction.rollback()
    assert client.session.transaction_status == "I"


@pytest.mark.parametrize("rows", [0, 1, 999, 1000, 1001, 5000])
def test_rows_stream_and_the_tag_comes_with_the_last(client, rows):
    result = client.session.execute(f"SELECT generate_series(1, {rows})")
    assert [int(row[0]) for row in result.rows] == list(range(1, rows + 1))
    assert result.command_tag == f"SELECT {rows}"


def test_few_rows_are_held_at_a_time_as_they_may_be_large(client, monkeypatch):
    held = []

    def noted(result):
        held.append(result.ntuples)
        return rows_of(result)

    monkeypatch.setattr(streams, "rows_of", noted)
    width = 1 << 20
    found = client.session.execute(f"SELECT repeat('x', {width}) FROM generate_series(1, 120)")
    assert sum(len(row[0]) for row in found.rows) == 120 * width
    assert sum(held) == 120
    assert max(held) * width <= 25 << 20


def test_an_abandoned_result_leaves_the_session_usable(client):
    rows = client.session.execute("SELECT generate_series(1, 50000)").rows
    next(rows)
    rows.close()
    assert client.value("SELECT 2") == "2"


def test_rows_not_fetched_are_dropped_by_the_next_request(client):
    client.run("CREATE TABLE t (a int PRIMARY KEY)")
    unread = client.session.execute("SELECT generate_series(1, 50000)")
    read_a_little = client.session.execute("SELECT generate_series(1, 50000)")
    next(read_a_little.rows)
    client.insert("t", "INSERT INTO t VALUES (1)")
    assert list(unread.rows) == []
    assert len(list(read_a_little.rows)) < 1000
    assert client.tail("t") == [[1]]


def test_an_error_among_the_rows_is_raised_where_it_happens(client):
    rows = client.session.execute("SELECT 1 / (2500 - g) FROM generate_series(1, 5000) g").rows
    with pytest.raises(CatalogError) as caught:
        list(rows)
    assert caught.value.sqlstate == "22012"
    assert client.value("SELECT 2") == "2"


def test_an_empty_query_string_has_neither_columns_nor_tag(client):
    result = client.session.execute("")
    assert (list(result.rows), result.columns, result.command_tag) == ([], None, "")


def test_parameters_travel_in_either_format(client):
    result = client.session.execute_parameters(
        "SELECT $1::int + $2::int", [b"1", b"\0\0\0\x02"], formats=[0, 1], result_format=1
    )
    assert list(result.rows) == [[b"\0\0\0\x03"]]


def test_large_values_are_sent_in_large_parts(client):
    """libpq moves all that is left to be sent after each of them."""
    with socket.socket(socket.AF_UNIX) as usual:
        least = usual.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
    with socket.socket(fileno=os.dup(client.session.fileno())) as used:
        assert used.family == socket.AF_UNIX
        assert used.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) > least


def test_canonical_parameters_are_validated_by_postgresql(client):
    assert client.session.canonical_parameters([23, 16, 25], [b" 7 ", b"yes", None]) == [
        b"\0\0\0\x07",
        b"\x01",
        None,
    ]
    with pytest.raises(CatalogError) as caught:
        client.session.canonical_parameters([23], [b"seven"])
    assert caught.value.sqlstate == "22P02"


def test_prepared_statements_survive_and_are_forgotten(client):
    client.session.analyses.analyse("SELECT $1::int * 2", [23], name="p", tree=False)
    assert client.session.analyses.describe("p").parameter_oids == (23,)
    assert list(client.session.execute_prepared("p", [b"4"]).rows) == [[b"8"]]
    client.session.analyses.deallocate("p")
    client.session.analyses.deallocate("p")
    with pytest.raises(CatalogError) as caught:
        client.session.execute_prepared("p", [b"4"])
    assert caught.value.sqlstate == "26000"


@pytest.mark.parametrize("sql", ["DEALLOCATE ALL", "DISCARD ALL"])
def test_our_own_prepared_statements_come_back_after_clients_dropped_them(client, sql):
    client.run("CREATE TABLE t (a int PRIMARY KEY)")
    client.insert("t", "INSERT INTO t VALUES (1)")
    client.run(sql)
    with pytest.raises(GatewayError, match="duplicate key"):
        client.insert("t", "INSERT INTO t VALUES (1)")
    client.insert("t", "INSERT INTO t VALUES (2)")
    assert client.tail("t") == [[1], [2]]


def test_copy_in_and_out_pass_data_through(client):
    client.run("CREATE TEMP TABLE t (a int, b text)")
    copy = client.session.copy_in("COPY t FROM STDIN")
    for i in range(3000):
        copy.write(f"{i}\tx{i}\n".encode())
    assert copy.finish() == "COPY 3000"
    copy = client.session.copy_out("COPY t TO STDOUT (FORMAT csv)")
    assert b"".join(copy.chunks).count(b"\n") == 3000
    assert (copy.command_tag, copy.overall_format, copy.formats) == ("COPY 3000", 0, (0, 0))


def test_a_failed_copy_leaves_the_session_idle(client):
    client.run("CREATE TEMP TABLE t (a int)")
    copy = client.session.copy_in("COPY t FROM STDIN")
    copy.write(b"1\nx\n")
    with pytest.raises(CatalogError) as caught:
        copy.finish()
    assert caught.value.sqlstate == "22P02"
    copy = client.session.copy_in("COPY t FROM STDIN")
    with pytest.raises(CatalogError) as caught:
        copy.fail("no more")
    assert caught.value.sqlstate == "57014"
    assert client.value("SELECT count(*) FROM t") == "0"


def _refusal(copy, data, pause_s=0.0):
    """Return what is told while more is written, and after how much; that is not told to end."""
    for written in range(3000):
        try:
            copy.write(data)
        except GatewayError as error:
            return error, written
        time.sleep(pause_s)
    raise AssertionError("everything is taken")


@pytest.mark.parametrize("form", ["text", "binary"])
def test_a_copy_that_is_refused_takes_no_more(client, form):
    client.run("CREATE TEMP TABLE t (a int)")
    copy = client.session.copy_in(f"COPY t FROM STDIN (FORMAT {form})")
    error, written = _refusal(copy, b"x\n" * 10_000, 0.01)
    assert error.sqlstate == {"text": "22P02", "binary": "22P04"}[form]
    assert written < 1000
    copy.fail("it has failed already")
    assert client.value("SELECT count(*) FROM t") == "0"


@pytest.mark.usefixtures("inspector")
def test_a_copy_that_is_refused_after_notices_takes_no_more(client):
    client.run("CREATE TABLE t (a int)")
    client.run(
        "CREATE FUNCTION told() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " RAISE NOTICE 'E %', repeat('E', 3000);"
        " PERFORM set_config('application_name', 'copying', true);"
        " IF new.a = 3 THEN RAISE EXCEPTION 'three'; END IF; RETURN new; END $$"
    )
    client.run("CREATE TRIGGER told BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION told()")
    copy = client.session.copy_in("COPY t FROM STDIN")
    copy.write(b"1\n2\n")
    time.sleep(0.2)
    for _ in range(3):
        copy.write(b"2\n")
    error, _ = _refusal(copy, b"3\n", 0.01)
    assert (error.sqlstate, error.message) == ("P0001", "three")
    notices = [notice for notice in client.notices if notice["M"].startswith("E EEE")]
    assert len(notices) == 6
    copy = client.session.copy_in("COPY t FROM STDIN")
    copy.write(b"1\n" * 200)  # more notices than are looked at
    assert copy.finish() == "COPY 200"


def test_rows_that_are_refused_are_not_computed(client):
    client.run("CREATE TEMP TABLE t (a int CHECK (a > 1))")
    computed = []

    def lines():
        for number in range(3000):
            computed.append(number)
            time.sleep(0.01)
            yield b"%d\n" % number * 1000

    with pytest.raises(CatalogError) as caught:
        names.load(client.session, "t", ["a"], lines())
    assert caught.value.sqlstate == "23514"
    assert len(computed) < 1000
    assert client.value("SELECT count(*) FROM t") == "0"


def test_who_copies_is_told_when_the_session_is_ended(client, other):
    client.run("CREATE TEMP TABLE t (a int)")
    copy = client.session.copy_in("COPY t FROM STDIN")
    copy.write(b"1\n")
    other.run(f"SELECT pg_terminate_backend({client.session.backend_pid})")
    error, _ = _refusal(copy, b"1\n", 0.01)
    assert error.sqlstate == "57P01"


def test_notices_and_notifications_arrive_with_statements(client, other):
    got = []
    client.session.on_notification = got.append
    client.run("LISTEN news")
    client.run("DROP TABLE IF EXISTS nothing_here")
    assert client.notices[-1]["C"] == "00000"
    other.run("NOTIFY news, 'hello'")
    client.session.wait_notifications(5)
    assert [(n.channel, n.payload) for n in got] == [("news", "hello")]


def test_reported_settings_follow_set(client):
    assert client.session.parameter_statuses()["server_version"].startswith("18")
    client.run("SET timezone = 'Asia/Tokyo'")
    assert client.session.parameter_statuses()["TimeZone"] == "Asia/Tokyo"


def test_startup_settings_reach_the_session(connect):
    client = connect(DateStyle="SQL, DMY", search_path='"a b", public')
    assert client.value("SHOW datestyle") == "SQL, DMY"
    assert client.value("SHOW search_path") == '"a b", public'


def test_text_travels_in_the_clients_encoding(connect):
    client = connect(client_encoding="LATIN1")
    client.run("CREATE TABLE é (a int PRIMARY KEY, b text)")
    client.insert("é", "INSERT INTO é VALUES (1, 'ü')")
    assert client.tail("é") == [[1, "ü"]]
    result = client.session.execute("SELECT 'é'")
    assert list(result.rows) == [[b"\xe9"]]
    (snapshot,) = client.snapshot("é").snapshots.values()
    assert snapshot.table.name == "é"


def test_commit_of_a_failed_transaction_says_rollback(client):
    client.session.transaction.begin()
    client.sqlstate("SELECT 1/0")
    assert client.session.transaction.commit() == "ROLLBACK"


def test_a_lost_connection_is_told_apart_from_a_failed_statement(client, catalog, database):
    client.session.transaction.begin()
    end_backend(client, catalog, database)
    with pytest.raises((CatalogError, CatalogUnavailableError)) as caught:
        client.session.transaction.commit()
    assert caught.value.sqlstate in {"57P01", "40003"}


@pytest.mark.parametrize("command", ["COMMIT", "SELECT 1"])
def test_of_rows_that_were_appended_elsewhere_is_said_that_they_are_there(
    client, catalog, database, command
):
    client.session.transaction.begin()
    end_backend(client, catalog, database)
    with (
        pytest.raises(UnknownOutcomeError) as caught,
        client.session.transaction.doubting(is_seen=True),
    ):
        client.session.execute(command)
    error = caught.value
    assert error.sqlstate == "40003"
    assert "after rows were appended to an external journal" in error.message
    assert "COMMIT" not in error.message
    assert error.detail == "terminating connection due to administrator command"
    assert error.hint is not None
    assert error.hint.startswith("The rows stay there")


def end_backend(client, catalog, database):
    administrator = catalog.admin(database)
    rows = administrator.execute(f"SELECT pg_terminate_backend({client.session.backend_pid}, 5000)")
    assert list(rows.rows) == [[b"t"]]
    administrator.close()


def test_a_session_can_be_cancelled_from_another_thread(client, other):
    cancel_when_waiting(client, other, "Timeout")
    assert client.sqlstate("SELECT pg_sleep(30)") == "57014"


def test_a_recreated_database_is_adopted_anew(catalog):
    owner = catalog.connect("postgres", "postgres")
    for _ in range(2):
        list(owner.execute("CREATE DATABASE again").rows)
        session = catalog.connect("postgres", "again")
        list(session.execute("CREATE TABLE t (a int PRIMARY KEY)").rows)
        ((oid,),) = session.execute("SELECT 't'::regclass::oid::int8").rows
        relid = int(oid)
        assert (
            session.observations.snapshot([SnapshotRequest(relid)]).snapshots[relid].table.name
            == "t"
        )
        session.close()
        list(owner.execute("DROP DATABASE again").rows)
    owner.close()


def test_a_closed_session_keeps_nobody_from_dropping_the_database(catalog):
    owner = catalog.connect("postgres", "postgres")
    # A session that still ends would not be in the way each time.
    for _ in range(5):
        list(owner.execute("CREATE DATABASE brief").rows)
        catalog.connect("postgres", "brief").close()
        catalog.admin("brief").close()
        list(owner.execute("DROP DATABASE brief WITH (FORCE)").rows)
    owner.close()


def test_a_database_with_another_order_of_text_is_refused(catalog):
    owner = catalog.connect("postgres", "postgres")
    list(
        owner.execute(
            "CREATE DATABASE latin ENCODING LATIN1 LOCALE 'C' TEMPLATE template0 "
            "LOCALE_PROVIDER libc"
        ).rows
    )
    with pytest.raises(GatewayError) as caught:
        catalog.connect("postgres", "latin")
    assert caught.value.sqlstate == "0A000"
    list(owner.execute("DROP DATABASE latin").rows)
    owner.close()
