"""Dialogues of messages: the gateway answers each message as PostgreSQL does.

Both answers are written as traces in regress mode and compared as text.
"""

import socket
import struct
import time
from collections.abc import Iterator

import pytest

from pgwire_gateway.messages import (
    Bind,
    Close,
    CopyData,
    CopyDone,
    CopyFail,
    Describe,
    ErrorResponse,
    Execute,
    Flush,
    FrontendMessage,
    NoticeResponse,
    ObjectKind,
    Parse,
    ProtocolVersion,
    Query,
    StartupMessage,
    Sync,
)
from tests.support.dialogues import bind, play, trace, wire
from tests.support.fix_server import Pair
from tests.support.servers import Address
from tests.support.wire_client import ConnectionClosedError, WireClient

pytestmark = pytest.mark.server

PATIENCE_S = 30.0
"""How long something may take that is sure to happen."""

STATEMENT, PORTAL = ObjectKind.STATEMENT, ObjectKind.PORTAL

SCHEMA = """
DROP SCHEMA IF EXISTS dialogues CASCADE; CREATE SCHEMA dialogues; SET search_path = dialogues;
CREATE TABLE t (id integer PRIMARY KEY, v varchar(20), n numeric(8,2));
INSERT INTO t VALUES (1, 'one', 1.5), (2, 'two', NULL), (3, NULL, 3),
    (4, 'four', -4.25), (5, '', 0);
CREATE TABLE logs (line text);
"""

SELECT_ALL = "SELECT id, v, n FROM t ORDER BY id"
SELECT_ONE = "SELECT v, n FROM t WHERE id = $1"
MANY_PARAMETERS = f"SELECT v FROM t WHERE id IN ({', '.join(f'${n}' for n in range(1, 5001))})"


@pytest.fixture
def clients(shared_pair: Pair) -> Iterator[tuple[WireClient, WireClient]]:
    """A raw connection to PostgreSQL and one to the gateway, on equal tables."""
    plain = wire(shared_pair.plain, shared_pair.database)
    gateway = wire(shared_pair.gateway, shared_pair.database)
    with plain, gateway:
        for client in (plain, gateway):
            client.query("SET client_min_messages = error")
            messages = client.query(SCHEMA)
            assert "ErrorResponse" not in trace(messages), trace(messages)
            client.query("SET client_min_messages = notice")
        yield plain, gateway


DIALOGUES: dict[str, list[list[FrontendMessage | bytes]]] = {
    "one_statement_unnamed": [
        [Parse("", SELECT_ALL), bind(), Describe(PORTAL), Execute(), Sync()],
    ],
    "portal_executed_after_a_change": [
        [Parse("s", SELECT_ONE), Parse("", "UPDATE t SET v = 'new' WHERE id = 1")],
        [bind("1", portal="p", statement="s"), bind(), Execute(), Execute("p"), Sync()],
    ],
    "portal_outlives_its_statement": [
        [Query("BEGIN"), Parse("s", SELECT_ONE), bind("1", portal="p", statement="s"), Sync()],
        [Close(STATEMENT, "s"), Execute("p"), Sync()],
        [Parse("s", SELECT_ONE), bind("2", portal="q", statement="s"), Sync()],
        [Query("DEALLOCATE s"), Parse("s", "SELECT 'another'"), Execute("q"), Sync()],
        [Parse("", "SELECT $1::integer + 1"), bind("3", portal="r"), Sync()],
        [Parse("", "SELECT 'another'"), bind(), Execute(), Execute("r"), Sync()],
        [Parse("", SELECT_ALL), bind(portal="u"), Sync(), Query("MOVE 2 u"), Execute("u"), Sync()],
        [Query("ROLLBACK")],
    ],
    "statement_closed_in_a_failed_transaction": [
        [Parse("s", SELECT_ONE), Describe(STATEMENT, "s"), Sync()],
        [Query("BEGIN"), Query("SELECT 1/0")],
        [Close(STATEMENT, "s"), Sync()],
        [Query("ROLLBACK")],
        [Parse("s", SELECT_ALL), bind(statement="s"), Execute(), Sync()],
    ],
    "named_statement_is_bound_again_and_again": [
        [Parse("s", SELECT_ONE), Describe(STATEMENT, "s"), Sync()],
        [bind("1", statement="s"), Execute(), Sync()],
        [bind("4", statement="s"), Execute(), bind("99", statement="s"), Execute(), Sync()],
        [Close(STATEMENT, "s"), Sync()],
        [bind("1", statement="s"), Execute(), Sync()],
    ],
    "parameter_types_are_inferred": [
        [Parse("a", "SELECT id FROM t WHERE n > $1 AND v = $2"), Describe(STATEMENT, "a"), Sync()],
        [Parse("b", "INSERT INTO t VALUES ($1, $2, $3)"), Describe(STATEMENT, "b"), Sync()],
        [Parse("c", "SELECT $1::date + $2"), Describe(STATEMENT, "c"), Sync()],
        [Parse("d", "SELECT $1 || v FROM t", (25,)), Describe(STATEMENT, "d"), Sync()],
        [Parse("e", "SELECT $1"), Describe(STATEMENT, "e"), Sync()],
        [Parse("f", "SELECT $2 + 1 FROM t"), Describe(STATEMENT, "f"), Sync()],
    ],
    "statements_outlive_all_that_is_discarded_but_all": [
        [Parse("s", SELECT_ONE), Sync()],
        [Query("DISCARD PLANS"), Query("DISCARD TEMP"), Query("DISCARD SEQUENCES")],
        [bind("1", statement="s"), Execute(), Sync()],
        [Query("DISCARD ALL")],
        [bind("1", statement="s"), Execute(), Sync()],
        [Query("SET search_path = dialogues")],
    ],
    "statements_are_deallocated_by_sql": [
        [Parse("s", SELECT_ONE), Parse("b", "BEGIN"), Parse("c", "COPY t TO STDOUT"), Sync()],
        [Parse("e", ""), Parse("l", "LOCK TABLE t"), Parse("v", "VACUUM t"), Sync()],
        *([Query(f"DEALLOCATE {name}")] for name in "sbcel"),
        *([bind(statement=name), Sync()] for name in "sbcel"),
        [Query("DEALLOCATE s"), Query("DEALLOCATE b")],
        [Query("BEGIN"), Query("DEALLOCATE PREPARE v"), Query("SELECT 1"), Query("COMMIT")],
        [Parse("s", "COMMIT"), Parse("b", SELECT_ONE), Sync()],
        [Query("DEALLOCATE ALL"), Query("DEALLOCATE s"), Query("DEALLOCATE b")],
    ],
    "null_parameters": [
        [Parse("", SELECT_ONE), bind(None), Execute(), Sync()],
        [Parse("", "SELECT coalesce($1, v) FROM t WHERE id = 1"), bind(None), Execute(), Sync()],
        [Parse("", "INSERT INTO t VALUES ($1, $2, $3)"), bind("7", None, None), Execute(), Sync()],
        [Query("SELECT * FROM t WHERE id = 7")],
    ],
    "statement_without_rows_has_no_data": [
        [Parse("", "INSERT INTO logs VALUES ('x')"), Describe(STATEMENT), Sync()],
        [Parse("p", "UPDATE t SET v = 'u' WHERE id = 1"), bind(statement="p"), Sync()],
        [bind(statement="p", portal="q"), Describe(PORTAL, "q"), Sync()],
        [Parse("", ""), bind(), Describe(PORTAL), Execute(), Sync()],
        [Parse("", "SET application_name = 'x'"), bind(), Describe(PORTAL), Execute(), Sync()],
    ],
    "describe_executes_nothing": [
        [Parse("i", "INSERT INTO logs VALUES ('x') RETURNING line"), Describe(STATEMENT, "i")],
        [bind(statement="i"), Describe(PORTAL), Sync()],
        [Query("SELECT count(*) FROM logs")],
    ],
    "row_limit_suspends_the_portal": [
        [Query("BEGIN")],
        [Parse("", SELECT_ALL), bind(portal="p"), Execute("p", 2), Sync()],
        [Execute("p", 2), Sync()],
        [Execute("p", 2), Sync()],
        [Execute("p", 2), Sync()],
        [Query("COMMIT")],
        [Execute("p", 2), Sync()],
    ],
    "row_limit_equal_to_the_rows": [
        [Query("BEGIN")],
        [Parse("", SELECT_ALL), bind(portal="p"), Execute("p", 5), Execute("p", 5), Sync()],
        [Query("ROLLBACK")],
    ],
    "several_portals_take_turns": [
        [Query("BEGIN")],
        [Parse("s", SELECT_ALL), bind(portal="a", statement="s"), bind(portal="b", statement="s")],
        [Execute("a", 2), Execute("b", 1), Execute("a", 2), Execute("b", 3), Sync()],
        [Close(PORTAL, "a"), Execute("b", 1), Execute("a", 1), Sync()],
        [Query("ROLLBACK")],
    ],
    "portal_ends_with_the_transaction": [
        [Parse("", SELECT_ALL), bind(portal="p"), Execute("p", 1), Sync()],
        [Execute("p", 1), Sync()],
    ],
    "portals_end_with_their_savepoint": [
        [Query("BEGIN")],
        [Parse("s", SELECT_ALL), bind(portal="p", statement="s"), Execute("p", 1), Sync()],
        [Query("SAVEPOINT one")],
        [bind(portal="q", statement="s"), Execute("q", 1), Sync()],
        [Query("SAVEPOINT two"), Query("RELEASE two")],
        [Execute("q", 1), Execute("p", 1), Sync()],
        [Query("SELECT 1 / 0")],
        [Execute("p", 1), Sync()],
        [Query("ROLLBACK TO one")],
        [Execute("p", 1), Sync()],
        [Execute("q", 1), Sync()],
        [Query("ROLLBACK TO one"), Query("COMMIT AND CHAIN")],
        [Execute("p", 1), Sync()],
        [Query("ROLLBACK")],
    ],
    "portals_of_a_failed_transaction": [
        [Parse("s", SELECT_ALL), Query("BEGIN"), bind(portal="p", statement="s"), Sync()],
        [bind(portal="q", statement="s"), Execute("q", 1), Sync()],
        [Query("DECLARE c CURSOR FOR SELECT id FROM t"), Query("SELECT 1 / 0")],
        [Execute("p"), Sync(), Execute("q", 1), Sync(), Execute("other"), Sync()],
        [Describe(PORTAL, "q"), Sync(), Describe(PORTAL, "c"), Sync()],
        [Describe(PORTAL, "other"), Sync(), Close(PORTAL, "q"), Execute("q"), Sync()],
        [Query("FETCH p"), Query("MOVE c"), Query("FETCH other"), Query("ROLLBACK")],
        [Execute("p"), Sync(), Describe(PORTAL, "c"), Sync(), Query("BEGIN; SELECT 1 / 0")],
        [Execute("p"), Sync(), Query("ROLLBACK; BEGIN")],
        [Parse("e", "SELECT 1 / (id - 2) FROM t ORDER BY id"), bind(portal="p", statement="e")],
        [Execute("p"), Sync(), Execute("p"), Sync(), Query("ROLLBACK"), Execute("p"), Sync()],
        [Query("BEGIN"), bind(portal="p", statement="s"), Sync(), Query("SAVEPOINT a")],
        [Query("SELECT 1 / 0"), Execute("p", 1), Sync(), Query("ROLLBACK TO a")],
        [Execute("p", 1), Sync(), Query("ROLLBACK")],
    ],
    "cursors_outside_of_a_block": [
        [Query("DECLARE h CURSOR WITH HOLD FOR SELECT id FROM t ORDER BY id")],
        [Query("DECLARE h CURSOR FOR SELECT id FROM t"), Query("DECLARE h CURSOR FOR SELECT 1")],
        [Query("DECLARE h CURSOR WITH HOLD FOR SELECT id FROM t"), Query("FETCH h")],
        [Parse("", "DECLARE h CURSOR FOR SELECT id FROM t"), bind(), Execute(), Sync()],
        [Query("BEGIN"), Query("DECLARE h CURSOR FOR SELECT id FROM t"), Query("ROLLBACK")],
        [Query("FETCH h"), Query("SELECT 1; DECLARE h CURSOR FOR SELECT id FROM t")],
        [Query("CLOSE h"), Query("DECLARE h CURSOR FOR SELECT id FROM t")],
    ],
    "a_portal_without_rows_runs_once": [
        [Parse("", "UPDATE t SET n = 9 WHERE id = 1"), bind(portal="p")],
        [Execute("p"), Execute("p"), Sync()],
        [Query("SELECT n FROM t WHERE id = 1")],
        [Parse("", "INSERT INTO logs VALUES ('once')"), bind(), Execute(), Execute(), Sync()],
        [Parse("", "DELETE FROM t WHERE id = 1"), bind(), Execute("", 1), Execute(), Sync()],
        [Parse("", "UPDATE t SET n = n + 1"), bind(), Execute(), Execute(), Sync()],
        [Parse("", "CREATE TABLE once (a integer)"), bind(), Execute(), Execute(), Sync()],
        [Parse("", "CREATE TABLE once AS SELECT 1 AS a"), bind(), Execute(), Execute(), Sync()],
        [Parse("", "SET TimeZone = 'Europe/Berlin'"), bind(), Execute(), Execute(), Sync()],
        [Parse("", ""), bind(), Execute(), Execute(), Sync()],
        [Parse("", "COPY (SELECT 1) TO STDOUT"), bind(), Execute(), Execute(), Sync()],
        [Query("SELECT id, n FROM t ORDER BY id"), Query("SELECT line FROM logs")],
        [Query("SELECT FROM once")],
    ],
    "a_portal_without_rows_runs_once_in_a_transaction": [
        [Parse("", "BEGIN"), bind(), Execute(), Execute(), Sync(), Query("ROLLBACK")],
        [Query("BEGIN"), Query("SAVEPOINT s")],
        [Parse("u", "UPDATE t SET n = n + 1 WHERE id < $1"), bind("3", portal="p", statement="u")],
        [Execute("p"), Sync(), Execute("p"), Sync()],
        [Query("ROLLBACK TO s"), Execute("p"), Sync(), Query("ROLLBACK TO s")],
        [bind("3", portal="p", statement="u"), Execute("p"), Close(PORTAL, "p")],
        [bind("3", portal="p", statement="u"), Execute("p"), Sync()],
        [Query("SELECT id, n FROM t ORDER BY id"), Query("DECLARE c CURSOR FOR SELECT id FROM t")],
        [Parse("", "MOVE 1 FROM c"), bind(), Execute(), Execute(), Sync(), Query("ROLLBACK TO s")],
        [Parse("", "COMMIT"), bind(portal="q"), Execute("q"), Execute("q"), Sync()],
        [Query("SELECT id, n FROM t ORDER BY id")],
    ],
    "a_portal_with_rows_has_none_left_when_it_runs_again": [
        [Parse("", SELECT_ALL), bind(), Execute(), Execute(), Sync()],
        [Parse("", "SELECT id FROM t WHERE id > 9"), bind(), Execute(), Execute(), Sync()],
        [Parse("", "UPDATE t SET n = n + 1 RETURNING id, n"), bind(), Execute(), Execute(), Sync()],
        [
            Parse("", "INSERT INTO logs VALUES ('x') RETURNING 1"),
            bind(),
            Execute(),
            Execute(),
            Sync(),
        ],
        [Parse("", "DELETE FROM logs RETURNING line"), bind(), Execute(), Execute("", 1), Sync()],
        [Parse("", "SHOW TimeZone"), bind(), Execute(), Execute(), Sync()],
        [Query("SELECT id, n FROM t ORDER BY id"), Query("SELECT line FROM logs")],
    ],
    "a_portal_of_a_temporary_table_has_none_left_either": [
        [Query("CREATE TEMP TABLE s (id integer)"), Query("CREATE TEMP TABLE u AS SELECT 1 AS id")],
        [Parse("", "INSERT INTO s VALUES (1), (2) RETURNING id"), bind(), Execute(), Execute()],
        [Execute("", 1), Sync()],
        [Parse("", "UPDATE s SET id = 3 RETURNING id"), bind(), Execute(), Execute(), Sync()],
        [Parse("", "DELETE FROM s RETURNING id"), bind(), Execute("", 1), Execute(), Execute()],
        [Sync(), Parse("", "TABLE u"), bind(), Execute(), Execute(), Sync()],
        [Query("DROP TABLE s, u")],
    ],
    "rows_without_columns": [
        [Parse("", "SELECT FROM t"), bind(results=(1,)), Describe(PORTAL), Execute(), Sync()],
    ],
    "returning_with_a_row_limit_writes_all_rows": [
        [Query("BEGIN")],
        [Parse("", "UPDATE t SET n = 0 WHERE id < 3 RETURNING id"), bind(), Execute("", 1)],
        [Execute("", 0), Sync()],
        [Query("SELECT count(*) FROM t WHERE n = 0")],
        [Query("ROLLBACK")],
    ],
    "after_an_error_all_is_skipped_until_sync": [
        [
            Parse("", "SELECT nothing FROM t"),
            bind(),
            Describe(PORTAL),
            Execute(),
            Parse("", "INSERT INTO logs VALUES ('skipped')"),
            bind(),
            Execute(),
            Sync(),
        ],
        [Query("SELECT count(*) FROM logs")],
        [Parse("", "SELECT 1 / (id - 1) FROM t"), bind(), Execute(), Execute(), Sync()],
        [Query("SELECT 1")],
    ],
    "messages_up_to_sync_are_one_transaction": [
        [
            Parse("", "INSERT INTO logs VALUES ('kept?')"),
            bind(),
            Execute(),
            Parse("", "SELECT 1 / (id - 1) FROM t"),
            bind(),
            Execute(),
            Sync(),
        ],
        [Query("SELECT count(*) FROM logs")],
    ],
    "rows_before_an_error_are_delivered": [
        [
            Parse("", "SELECT v FROM t WHERE id = 1"),
            bind(),
            Execute(),
            Parse("", "SELECT 1 / (id - 1) FROM t"),
            bind(),
            Execute(),
            Sync(),
        ],
        [Query("SELECT id FROM t ORDER BY id; SELECT nothing FROM t; SELECT 1")],
    ],
    "grammar_in_a_failed_transaction": [
        [Query("BEGIN; SELECT 1 / 0")],
        [Query("SELEC 1"), Query("SELECT none"), Query("  SELECT FROM WHERE; SELECT 1")],
        [Parse("", "SELEC 2"), Sync()],
        [Query("ROLLBACK")],
    ],
    "statements_prepared_in_a_failed_transaction": [
        [Query("BEGIN"), Parse("f", SELECT_ONE), Sync()],
        [Query("SELECT 1 / 0"), Parse("f", SELECT_ONE), Sync()],
        [Parse("f", "SELEC 1"), Sync(), Parse("f", "SELECT 1; SELECT 2"), Sync()],
        [Parse("f", "ROLLBACK"), Sync(), Query("DEALLOCATE f"), Query("ROLLBACK")],
        [bind("1", statement="f"), Execute(), Sync()],
        [Parse("f", SELECT_ONE), Sync()],
        [Query("DEALLOCATE f")],
        [Parse("f", SELECT_ONE), bind("2", statement="f"), Execute(), Sync()],
    ],
    "what_is_described_and_bound_in_a_failed_transaction": [
        [Parse("s", SELECT_ONE), Parse("u", "DELETE FROM t"), Parse("e", ""), Sync()],
        [Parse("r", "DELETE FROM t RETURNING id"), Parse("w", "SHOW work_mem"), Sync()],
        [Query("BEGIN"), Query("SELECT 1 / 0")],
        *([Describe(STATEMENT, name), Sync()] for name in "suerw"),
        *([bind(statement=name), Execute(), Sync()] for name in "uerw"),
        [Query("ROLLBACK")],
    ],
    "thousands_of_parameters": [
        [Parse("", MANY_PARAMETERS), bind(*["1"] * 5000), Execute(), Sync()],
        [Query("SELECT 1")],
    ],
    "error_in_a_transaction": [
        [Query("BEGIN")],
        [Parse("", "SELECT 1 / (id - 1) FROM t"), bind(), Execute(), Sync()],
        [Parse("", SELECT_ALL), Sync()],
        [Query("ROLLBACK")],
    ],
    "what_does_not_exist": [
        [Describe(STATEMENT, "none"), Sync()],
        [Describe(PORTAL, "none"), Sync()],
        [Execute("none"), Sync()],
        [bind(statement="none"), Sync()],
        [Close(STATEMENT, "none"), Close(PORTAL, "none"), Sync()],
    ],
    "names_that_are_taken": [
        [Parse("s", "SELECT 1"), Sync()],
        [Parse("s", "SELECT 2"), Sync()],
        [Query("BEGIN")],
        [bind(portal="p", statement="s"), bind(portal="p", statement="s"), Sync()],
        [Query("ROLLBACK")],
    ],
    "wrong_numbers_of_parameters_and_formats": [
        [Parse("s", SELECT_ONE), Sync()],
        [bind(statement="s"), Sync()],
        [bind("1", "2", statement="s"), Sync()],
        [Bind("", "s", (0, 0), (b"1",)), Sync()],
        [Bind("", "s", (), (b"1",), (0, 0, 0)), Execute(), Sync()],
    ],
    "unknown_parameter_format": [
        [Parse("s", SELECT_ONE), Bind("", "s", (7,), (b"1",)), Sync()],
    ],
    "parameters_that_do_not_fit": [
        [Parse("s", SELECT_ONE), bind("x", statement="s"), Execute(), Sync()],
        [Bind("", "s", (1,), (b"\x00\x01",)), Execute(), Sync()],
        [bind("99999999999", statement="s"), Execute(), Sync()],
        [Parse("", "SELECT $1 + 1"), bind("one"), Execute(), Sync()],
        [Parse("", "INSERT INTO t VALUES ($1, $2)"), bind("nine", "x"), Execute(), Sync()],
    ],
    "parameters_a_column_does_not_take": [
        [Parse("", "INSERT INTO t VALUES ($1, $2)"), bind("9", "x" * 30), Execute(), Sync()],
    ],
    "binary_parameters_and_results": [
        [
            Parse("s", "SELECT id, v, n FROM t WHERE id = $1 OR v = $2 ORDER BY id"),
            Bind("", "s", (1,), (b"\x00\x00\x00\x01", b"four"), (1,)),
            Execute(),
            Sync(),
        ],
        [Bind("", "s", (1, 0), (b"\x00\x00\x00\x02", b"x"), (0, 1, 0)), Execute(), Sync()],
        [Bind("", "s", (0, 1), (b"2", b"x"), (1, 1, 1)), Describe(PORTAL), Execute(), Sync()],
    ],
    "binary_cursor": [
        [Query("BEGIN; DECLARE c BINARY CURSOR FOR SELECT i FROM generate_series(1, 3) i")],
        [Query("FETCH 2 FROM c")],
        [Parse("", "FETCH 1 FROM c"), bind(), Describe(PORTAL), Execute(), Sync()],
        [Query("FETCH 1 FROM c; ROLLBACK")],
    ],
    "cursor_over_a_table": [
        [Query("BEGIN")],
        [
            Parse("", "DECLARE c CURSOR FOR SELECT id, v FROM t WHERE id > $1 ORDER BY id"),
            bind("1"),
            Describe(PORTAL),
            Execute(),
            Describe(PORTAL, "c"),
            Sync(),
        ],
        [Parse("f", "FETCH 3 FROM c"), Describe(STATEMENT, "f"), Sync()],
        [bind(statement="f"), Describe(PORTAL), Execute("", 1), Execute("", 1), Sync()],
        [bind(statement="f", results=(1, 0)), Describe(PORTAL), Execute(), Sync()],
        [Parse("", "MOVE 2 FROM c"), bind(), Describe(PORTAL), Execute(), Sync()],
        [Query("DECLARE d BINARY CURSOR FOR SELECT id, v FROM t WHERE id < 3 ORDER BY id")],
        [Query("FETCH 1 FROM d")],
        [Parse("", "FETCH 1 FROM d"), bind(), Describe(PORTAL), Execute(), Sync()],
        [Close(PORTAL, "d"), Query("SAVEPOINT s"), Query("FETCH 1 FROM d")],
        [Query("ROLLBACK TO s"), Query("DECLARE d CURSOR FOR SELECT id FROM t ORDER BY id")],
        [Parse("f2", "FETCH ALL FROM d"), bind(statement="f2"), Execute("", 2), Sync()],
        [Query("FETCH ALL FROM d"), Query("COMMIT"), Query("FETCH ALL FROM d")],
    ],
    "move_and_close_of_portals": [
        [Parse("s", SELECT_ALL), Query("BEGIN")],
        [bind(statement="s", portal="p"), Execute("p", 1), Sync(), Query("MOVE FORWARD 1 p")],
        [Execute("p", 1), Sync(), Query("MOVE 0 p"), Query("MOVE RELATIVE 1 p")],
        [Query("MOVE ABSOLUTE 5 p"), Query("MOVE 0 p"), Execute("p", 1), Sync()],
        [Query("MOVE 0 p"), Query("MOVE 1 p"), Query("CLOSE p"), Query("SAVEPOINT s")],
        [Execute("p"), Sync(), Query("ROLLBACK TO s")],
        [bind(statement="s", portal="p"), Sync(), Query("MOVE 0 p"), Query("MOVE 2 p")],
        [Parse("", "MOVE 1 p"), bind(), Describe(PORTAL), Execute(), Execute("p", 1), Sync()],
        [Query("MOVE ALL p"), Execute("p"), Sync(), Query("MOVE ABSOLUTE 9 p")],
        [Query("DECLARE p CURSOR FOR SELECT 1"), Query("ROLLBACK")],
        [Query("BEGIN")],
        *(
            [
                bind(statement="s", portal="p"),
                Execute("p", 2),
                Sync(),
                Query(move),
                Query("ROLLBACK; BEGIN"),
            ]
            for move in ("MOVE -1 p", "MOVE PRIOR p", "MOVE FIRST p", "MOVE LAST p")
        ),
        [bind(statement="s", portal="p"), bind(statement="s", portal="q")],
        [Execute("q", 1), Query("CLOSE ALL"), Execute("p"), Sync(), Query("ROLLBACK")],
        [Query("BEGIN"), Parse("u", "UPDATE t SET n = 1 WHERE id < 4 RETURNING id"), Sync()],
        [bind(statement="u", portal="p"), Sync(), Query("MOVE 2 p"), Execute("p"), Sync()],
        [Query("SELECT count(*) FROM t WHERE n = 1")],
        [Parse("", "DELETE FROM t"), bind(portal="q"), Execute("q"), Sync(), Query("MOVE q")],
        [Query("ROLLBACK"), Query("MOVE p")],
        [Parse("e", "SELECT 1 / (id - 3) FROM t ORDER BY id"), Query("BEGIN")],
        [bind(statement="e", portal="p"), Sync(), Query("MOVE 3 p"), Query("ROLLBACK")],
    ],
    "cursor_at_the_beginning_of_a_series": [
        [Parse("", "DECLARE c CURSOR FOR SELECT 1"), bind(), Execute(), Parse("", "SELECT 1")],
        [bind(), Execute(), Sync()],
        [Parse("", "DECLARE c CURSOR FOR SELECT id FROM t"), bind(), Execute()],
        [Parse("", "SELECT 1"), bind(), Execute(), Sync()],
        [Parse("", "SELECT 1"), bind(), Execute(), Parse("", "DECLARE c CURSOR FOR SELECT 1")],
        [bind(), Execute(), Parse("", "FETCH 1 FROM c"), bind(), Execute(), Sync()],
        [Parse("", "DECLARE c CURSOR WITH HOLD FOR SELECT id FROM t ORDER BY id"), bind()],
        [
            Execute(),
            Parse("", "FETCH 1 FROM c"),
            bind(),
            Execute(),
            Sync(),
            Query("FETCH 1 FROM c"),
        ],
        [Query("CLOSE c"), Query("DECLARE c CURSOR FOR SELECT id FROM t; SELECT 1")],
    ],
    "sql_execute_in_binary": [
        [Query("PREPARE p AS SELECT 7 AS seven")],
        [Parse("", "EXECUTE p"), Bind("", "", (), (), (1,)), Describe(PORTAL), Execute(), Sync()],
        [Query("EXECUTE p")],
    ],
    "several_statements_are_not_prepared": [
        [Parse("", "SELECT 1; SELECT 2"), Sync()],
        [Parse("", "SELECT id FROM t; SELECT 2"), Sync()],
    ],
    "transaction_by_extended_query": [
        [Parse("", "BEGIN"), bind(), Execute(), Sync()],
        [Parse("", "INSERT INTO logs VALUES ('in')"), bind(), Execute(), Sync()],
        [Parse("", "COMMIT"), bind(), Execute(), Sync()],
        [Query("SELECT line FROM logs")],
    ],
    "simple_query_answers_each_statement": [
        [Query("SELECT id FROM t WHERE id = 1; INSERT INTO logs VALUES ('a'); SELECT 'x' AS y")],
        [Query("")],
        [Query(" ; ;")],
        [Query("BEGIN; SELECT 1 / 0; SELECT 2")],
        [Query("SELECT 3")],
        [Query("ROLLBACK")],
    ],
    "simple_query_closes_the_unnamed_portal": [
        [Query("BEGIN")],
        [Parse("", SELECT_ALL), bind(), Execute("", 1), Sync()],
        [Query("SELECT 1")],
        [Execute("", 1), Sync()],
        [Query("ROLLBACK")],
    ],
    "copy_in": [
        [Query("COPY logs FROM STDIN"), CopyData(b"a\nb"), CopyData(b"c\n\\.\n"), CopyDone()],
        [Query("SELECT line FROM logs ORDER BY line")],
        [Query("COPY logs FROM STDIN"), CopyData(b"lost\n"), CopyFail("given up")],
        [Query("COPY t FROM STDIN"), CopyData(b"9\tx\n"), CopyDone()],
        [Query("SELECT count(*) FROM logs")],
    ],
    "copy_out": [
        [Query("COPY (SELECT id, v, n FROM t ORDER BY id) TO STDOUT")],
        [Query("COPY (SELECT id FROM t ORDER BY id) TO STDOUT (FORMAT binary)")],
        [Query("COPY (SELECT 1 / (id - 9) FROM t ORDER BY id) TO STDOUT; SELECT 1")],
    ],
    "copy_by_extended_query": [
        [Parse("", "COPY logs FROM STDIN"), bind(), Describe(PORTAL), Execute()],
        [CopyData(b"x\n"), CopyDone(), Sync()],
        [Parse("", "COPY (SELECT 1) TO STDOUT"), bind(), Execute(), Sync()],
    ],
    "unknown_statement_position": [
        [Query("SELECT id FROM t; SELECT nothing FROM t")],
        [Query("SELECT 'ä', nothing FROM t")],
    ],
    "temporary_table_hides_a_journaled_one_and_goes": [
        [Query("CREATE TEMP TABLE t AS SELECT 7 AS id")],
        [Parse("s", "SELECT id FROM t ORDER BY id"), bind(statement="s"), Execute(), Sync()],
        [Query("DROP TABLE pg_temp.t")],
        [bind(statement="s"), Execute(), Sync()],
        [Query("BEGIN; CREATE TEMP TABLE t ON COMMIT DROP AS SELECT 8 AS id")],
        [Parse("u", "SELECT id FROM t ORDER BY id"), bind(statement="u"), Execute(), Sync()],
        [Query("COMMIT")],
        [bind(statement="u"), Execute(), Sync()],
    ],
    "view_is_replaced_by_one_of_a_journaled_table": [
        [Query("CREATE VIEW w AS SELECT 9 AS id")],
        [Parse("s", "SELECT id FROM w ORDER BY id"), bind(statement="s"), Execute(), Sync()],
        [Query("CREATE OR REPLACE VIEW w AS SELECT id FROM t")],
        [bind(statement="s"), Execute(), Sync()],
    ],
    "search_path_decides_what_a_prepared_statement_reads": [
        [Query("CREATE SCHEMA dialogues_2 CREATE TABLE t (id integer)")],
        [Query("INSERT INTO dialogues_2.t VALUES (12)")],
        [Parse("s", "SELECT id FROM t ORDER BY id"), bind(statement="s"), Execute(), Sync()],
        [Query("SET search_path = dialogues_2")],
        [bind(statement="s"), Execute(), Sync()],
        [Query("SET search_path = dialogues; DROP SCHEMA dialogues_2 CASCADE")],
        [bind(statement="s"), Execute(), Sync()],
    ],
    "settings_are_reported": [
        [Query("SET TimeZone = 'Europe/Berlin'"), Query("SET DateStyle = 'German'")],
        [Query("SET application_name = 'me'; SET client_min_messages = notice")],
        [Query("BEGIN; SET TimeZone = 'UTC'; ROLLBACK")],
    ],
    "notices": [
        [Query("DROP TABLE IF EXISTS nothing")],
        [Query("COMMIT")],
        [Query("CREATE TABLE IF NOT EXISTS t (a integer)")],
    ],
}


DIVERGENCES = {
    "parameters_a_column_does_not_take": "PostgreSQL casts them while it plans, which is at Bind",
    "unknown_parameter_format": "the error does not say which parameter",
    "portal_executed_after_a_change": "rows are read as of Execute, not as of Bind",
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.xfail(reason=DIVERGENCES[name], strict=True))
        if name in DIVERGENCES
        else name
        for name in DIALOGUES
    ],
)
def test_dialogue_is_the_same_as_with_postgresql(
    name: str, clients: tuple[WireClient, WireClient]
) -> None:
    plain, gateway = clients
    steps = [message for step in DIALOGUES[name] for message in step]
    expected, found = play(plain, steps), play(gateway, steps)
    assert found == expected


def test_a_prepared_statement_keeps_the_columns_it_announced(
    clients: tuple[WireClient, WireClient],
) -> None:
    for client in clients:
        client.send(Parse("s", "SELECT * FROM t"), Describe(STATEMENT, "s"), Sync())
        client.receive_until_ready()
        client.query("ALTER TABLE t ADD COLUMN more integer")
        for _ in range(2):
            client.send(bind(statement="s"), Execute(), Sync())
            messages = client.receive_until_ready()
            assert "cached plan must not change result type" in trace(messages)
            # Drivers prepare it anew where this is told.
            (error,) = [message for message in messages if isinstance(message, ErrorResponse)]
            assert error.get("R") == "RevalidateCachedQuery"
        client.query("ALTER TABLE t DROP COLUMN more")
        client.query("BEGIN; DROP TABLE t")
        client.send(bind(statement="s"), Execute(), Sync())
        assert 'C "42P01"' in trace(client.receive_until_ready())
        client.query("ROLLBACK")
        client.send(bind(statement="s"), Execute(), Sync())
        assert "SELECT 5" in trace(client.receive_until_ready())


def test_portals_are_not_fetched_from(shared_pair: Pair) -> None:
    """Their rows are in the formats of their Bind, not in those of the FETCH."""
    with wire(shared_pair.gateway, shared_pair.database) as client:
        bound: list[FrontendMessage | bytes] = [Parse("s", "VALUES (1), (2)"), Query("BEGIN")]
        play(client, [*bound, bind(portal="p", statement="s"), Execute("p", 1), Sync()])
        assert '"0A000"' in play(client, [Query("FETCH 1 FROM p"), Query("ROLLBACK")])
        play(client, [Query("BEGIN"), Parse("b", "SET work_mem = 100"), Sync()])
        play(client, [bind(portal="p", statement="b"), Sync()])
        assert '"0A000"' in play(client, [Query("MOVE 1 FROM p"), Query("ROLLBACK")])


def test_flush_sends_what_is_held(clients: tuple[WireClient, WireClient]) -> None:
    for client in clients:
        client.send(Parse("", SELECT_ALL), bind(), Execute("", 1), Flush())
        answers = client.receive_until(count=4)
        names = [type(answer).__name__ for answer in answers]
        assert names == ["ParseComplete", "BindComplete", "DataRow", "PortalSuspended"]
        client.exchange(Sync())


@pytest.mark.parametrize(
    ("failing", "values"), [("SELECT nothing", ()), ("SELECT id / $1 FROM t", ("0",))]
)
def test_errors_are_sent_at_once(
    clients: tuple[WireClient, WireClient], failing: str, values: tuple[str, ...]
) -> None:
    """Clients may wait for them that have sent Flush, which is skipped after an error."""
    for client in clients:
        client.query("INSERT INTO t VALUES (1, 'one')")
        client.send(Parse("", failing), bind(*values), Execute(), Flush())
        while not isinstance(client.receive(), ErrorResponse):
            pass
        assert trace(client.exchange(Sync())) == "B\t5\tReadyForQuery\t I\n"


GARBAGE = [
    b"\x00" * 8,
    b"Q\xff\xff\xff\xff",
    b"Q\x00\x00\x00\x03",
    b"?\x00\x00\x00\x04",
    b"Q\x00\x00\x00\x05x",
    b"Q\x00\x00\x00\x06\xff\x00",
    b"d\x00\x00\x00\x05x",
    b"p\x00\x00\x00\x05\x00",
]


@pytest.mark.parametrize("garbage", GARBAGE, ids=repr)
def test_garbage_has_the_same_effect_as_on_postgresql(garbage: bytes, shared_pair: Pair) -> None:
    effects = []
    for server in (shared_pair.plain, shared_pair.gateway):
        with wire(server, shared_pair.database) as client:
            client.send(garbage, Sync())
            try:
                effects.append(trace(client.receive_until_ready()))
            except ConnectionClosedError as closed:
                effects.append(f"{trace(closed.messages)}closed")
    assert effects[1] == effects[0]
    with wire(shared_pair.gateway, shared_pair.database) as client:
        assert "SELECT 1" in trace(client.query("SELECT 1"))


def test_a_client_that_leaves_while_it_is_greeted_leaves_no_session(
    gateway: Address, database: str
) -> None:
    parameters = (("user", "postgres"), ("database", database))
    hang_up_at_once = struct.pack("ii", 1, 0)
    for _ in range(5):
        with socket.create_connection((gateway.host, gateway.port)) as transport:
            transport.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, hang_up_at_once)
            transport.sendall(StartupMessage(ProtocolVersion(3, 0), parameters).encode())
    others = (
        "SELECT 'gone' FROM pg_stat_activity "
        f"WHERE datname = '{database}' AND pid <> pg_backend_pid() HAVING count(*) = 0"
    )
    deadline = time.monotonic() + PATIENCE_S
    with wire(gateway, "postgres") as client:
        while "gone" not in trace(client.query(others)):
            assert time.monotonic() < deadline, "a session is left"
            time.sleep(0.1)


def test_notices_come_before_the_end_of_the_statement(
    clients: tuple[WireClient, WireClient],
) -> None:
    for client in clients:
        answers = client.query("DROP TABLE IF EXISTS nothing")
        assert isinstance(answers[0], NoticeResponse)
