"""Codes that prove the gateway's calls: whoever had seen one could do nothing with it.

No role sees any (``test_secrets.py``). Here the session that a code was made for, or another one,
sends it again, as SQL of an ordinary role.
"""

from collections.abc import Callable
from contextlib import suppress

import pytest

from catalog.bookkeeping import calls as bookkeeping
from catalog.bookkeeping.call_codes import array_text
from catalog.bookkeeping.calls import Function, array
from catalog.errors import GatewayError
from tests.support.fix_catalog import Client, Inspector

pytestmark = pytest.mark.catalog

DENIED = "42501"

READS = (bookkeeping.RELATIONS, array([1259]))
"""A call that does nothing but tell, with its argument."""


def code_of(client: Client, function: Function, *values: bytes | None) -> bytes:
    """Return the code that the gateway would make for a call of this session."""
    made = client.session._calls._code(function, values)
    assert isinstance(made, bytes)
    return made


def outcome(client: Client, code: bytes, function: Function, *values: bytes | None) -> str:
    """Send a code as SQL; return the SQLSTATE, empty for success."""
    try:
        rows = client.session.execute_parameters(
            function.sql, [code, *values], parameter_oids=function.parameter_oids, is_own=True
        ).rows
        list(rows)
    except GatewayError as error:
        return error.sqlstate
    return ""


def test_a_code_is_good_for_one_call(client: Client) -> None:
    code = code_of(client, *READS)
    assert [outcome(client, code, *READS) for _ in range(3)] == ["", DENIED, DENIED]


def test_a_code_is_worthless_once_a_later_one_was_used(client: Client) -> None:
    earlier, later = code_of(client, *READS), code_of(client, *READS)
    assert outcome(client, later, *READS) == ""
    assert outcome(client, earlier, *READS) == DENIED


def test_any_call_of_the_gateway_makes_it_worthless(client: Client) -> None:
    code = code_of(client, *READS)
    client.session.observations.definitions()
    assert outcome(client, code, *READS) == DENIED


def test_a_code_is_for_its_arguments(client: Client) -> None:
    code = code_of(client, *READS)
    assert outcome(client, code, bookkeeping.RELATIONS, array([1260])) == DENIED
    assert outcome(client, code, bookkeeping.RELATIONS, None) == DENIED
    assert outcome(client, code, *READS) == ""


@pytest.mark.parametrize(
    ("meant", "sent"),
    [
        ((b"1", b"a,b", b""), (b"1", b"a", b"b")),
        ((b"1", b"", None), (b"1", None, b"")),
        ((b"1", b"NULL", b"x"), (b"1", None, b"x")),
        ((b"1", b'a","b', None), (b"1", b"a", b"b")),
    ],
)
def test_arguments_do_not_run_into_each_other(
    client: Client, meant: tuple[bytes | None, ...], sent: tuple[bytes | None, ...]
) -> None:
    code = code_of(client, bookkeeping.HEAT_KEYS, *meant)
    assert outcome(client, code, bookkeeping.HEAT_KEYS, *sent) == DENIED


def test_a_code_is_for_its_function(client: Client) -> None:
    code = code_of(client, bookkeeping.HOLD_SOURCE, b"1259")
    for function in (bookkeeping.HOLD_PARENT, bookkeeping.SET_KEY, bookkeeping.BEGIN_LOAD):
        assert outcome(client, code, function, b"1259") == DENIED


def test_a_code_is_for_its_session(client: Client, other: Client) -> None:
    code = code_of(client, *READS)
    assert outcome(other, code, *READS) == DENIED
    assert outcome(client, code, *READS) == ""
    assert outcome(other, code, *READS) == DENIED


def test_not_even_the_number_of_another_session_can_be_used_up(
    client: Client, other: Client
) -> None:
    code = code_of(client, *READS)
    others = code_of(other, *READS)
    sequence, _, _ = others.split()
    _, number, said = code.split()
    assert outcome(client, b" ".join((sequence, number, said)), *READS) == DENIED
    assert outcome(other, others, *READS) == ""


def test_a_number_cannot_be_made_larger(client: Client) -> None:
    code = code_of(client, *READS)
    sequence, number, said = code.split()
    assert outcome(client, b"%b %d %b" % (sequence, int(number) + 1, said), *READS) == DENIED


def test_rollback_does_not_bring_a_code_back(client: Client) -> None:
    code = code_of(client, *READS)
    client.run("BEGIN")
    assert outcome(client, code, *READS) == ""
    client.run("ROLLBACK")
    assert outcome(client, code, *READS) == DENIED


def test_rollback_to_a_savepoint_does_not_bring_a_code_back(client: Client) -> None:
    code = code_of(client, *READS)
    client.run("BEGIN")
    client.run("SAVEPOINT s")
    assert outcome(client, code, *READS) == ""
    client.run("ROLLBACK TO s")
    assert outcome(client, code, *READS) == DENIED
    client.run("ROLLBACK")


def test_a_call_that_fails_has_used_its_code(client: Client) -> None:
    client.run("CREATE TABLE t (a int PRIMARY KEY)")
    table = str(client.relid("t")).encode()
    values = (table, b"1", b'[{"path": "elsewhere"}]')
    code = code_of(client, bookkeeping.PUBLISH, *values)
    assert outcome(client, code, bookkeeping.PUBLISH, *values) == "XX001"
    assert outcome(client, code, bookkeeping.PUBLISH, *values) == DENIED


@pytest.mark.parametrize("isolation", ["REPEATABLE READ", "SERIALIZABLE"])
def test_an_older_snapshot_does_not_bring_a_code_back(client: Client, isolation: str) -> None:
    client.run(f"BEGIN ISOLATION LEVEL {isolation}")
    client.run("SELECT count(*) FROM pg_class")
    code = code_of(client, *READS)
    assert [outcome(client, code, *READS), outcome(client, code, *READS)] == ["", DENIED]
    client.run("ROLLBACK")


def test_a_code_of_a_read_only_transaction_lasts_until_the_next_call_elsewhere(
    client: Client,
) -> None:
    code = code_of(client, *READS)
    client.run("BEGIN READ ONLY")
    assert [outcome(client, code, *READS) for _ in range(2)] == ["", ""]
    # It is good for nothing else all the same.
    assert outcome(client, code, bookkeeping.RELATIONS, array([1260])) == DENIED
    client.run("ROLLBACK")
    client.session.observations.definitions()
    client.run("BEGIN READ ONLY")
    assert outcome(client, code, *READS) == DENIED
    client.run("ROLLBACK")


def test_errors_in_the_middle_leave_the_session_in_step(client: Client) -> None:
    client.run("CREATE TABLE t (a int PRIMARY KEY)")
    for _ in range(3):
        with suppress(GatewayError):
            client.insert("t", "INSERT INTO t VALUES (1 / 0)")
    client.insert("t", "INSERT INTO t VALUES (1)")
    client.run("BEGIN")
    client.session.observations.definitions()
    client.run("ROLLBACK")
    assert client.snapshot("t").snapshots


OUT_OF_REACH = (
    "SELECT last_value FROM pg_journal.calls_1",
    "SELECT setval('pg_journal.calls_1', 1)",
    "SELECT nextval('pg_journal.calls_1')",
    "ALTER SEQUENCE pg_journal.calls_1 RESTART",
    "DROP SEQUENCE pg_journal.calls_1",
    "TRUNCATE pg_journal.series",
    "UPDATE pg_journal.series SET backend = 0",
    "SELECT 1 FROM pg_journal.series FOR UPDATE",
    "SELECT pg_journal.add_series()",
    "SELECT pg_journal.authorize('1 1 1', 'relations')",
    "SELECT pg_journal.relations('', '{}')",
    "SELECT pg_journal.relations('guess', '{}')",
    "SELECT pg_journal.relations(NULL, '{}')",
    "SELECT pg_journal.relations('a b c d', '{}')",
)


def test_numbers_and_keys_are_out_of_reach(client: Client) -> None:
    found = {sql: client.sqlstate(sql) for sql in OUT_OF_REACH}
    assert found == dict.fromkeys(OUT_OF_REACH, DENIED)


def test_discarding_everything_does_not_bring_a_code_back(client: Client) -> None:
    code = code_of(client, *READS)
    assert outcome(client, code, *READS) == ""
    for statement in ("DISCARD SEQUENCES", "DISCARD ALL", "RESET ALL"):
        client.run(statement)
        assert outcome(client, code, *READS) == DENIED


def test_each_session_has_numbers_of_its_own(connect: Callable[..., Client]) -> None:
    clients = [connect() for _ in range(6)]  # more than there are sequences to begin with
    sequences = {client.session._calls._codes.sequence for client in clients}
    assert len(sequences) == len(clients)


def test_sessions_that_begin_together_have_numbers_of_their_own(
    client: Client, connect: Callable[..., Client], inspector: Inspector
) -> None:
    inspector.run(
        f"UPDATE pg_journal.series SET backend = 0 WHERE backend = {client.session.backend_pid}"
    )
    client.run("BEGIN")
    # PostgreSQL looks only once in a transaction which sessions there are.
    client.run("SELECT count(*) FROM pg_stat_get_backend_idset()")
    other = connect().session._calls._codes.sequence
    (taken,) = client.run("SELECT sequence FROM pg_journal.take_series()")
    assert taken != (str(other),)
    client.run("ROLLBACK")


def test_who_comes_later_begins_with_a_larger_number(connect: Callable[..., Client]) -> None:
    first = connect()
    codes = first.session._calls._codes
    for _ in range(100):
        last = next(codes.numbers)
    first.session.close()
    second = connect().session._calls._codes
    assert second.sequence == codes.sequence
    assert next(second.numbers) > last


def test_asking_for_ones_numbers_keeps_nobody_from_logging_in(
    client: Client, connect: Callable[..., Client]
) -> None:
    client.run("BEGIN")
    told = client.run("SELECT sequence FROM pg_journal.take_series()")
    assert told == [(str(client.session._calls._codes.sequence),)]
    assert connect().run("SELECT 1") == [("1",)]
    client.run("ROLLBACK")


def test_calls_take_no_number_of_the_clients(client: Client) -> None:
    client.session.observations.definitions()
    assert client.sqlstate("SELECT lastval()") == "55000"
    client.run("CREATE SEQUENCE s")
    assert client.value("SELECT nextval('s')") == "1"
    client.session.observations.definitions()
    assert client.value("SELECT lastval()") == "1"


def test_calls_give_what_only_reads_no_transaction_number(client: Client) -> None:
    client.run("BEGIN")
    client.session.observations.definitions()
    assert client.value("SELECT pg_current_xact_id_if_assigned()") is None
    client.run("ROLLBACK")


def test_sessions_that_only_read_get_theirs(connect: Callable[..., Client]) -> None:
    assert connect(default_transaction_read_only="on").session.observations.definitions()


@pytest.mark.parametrize("encoding", ["LATIN1", "WIN1252", "EUC_JP", "UTF8"])
def test_arguments_are_covered_whatever_the_clients_encoding(
    connect: Callable[..., Client], encoding: str
) -> None:
    client = connect(client_encoding=encoding)
    client.run("CREATE TABLE t (a int PRIMARY KEY)")
    word = "é".encode()
    values = (str(client.relid("t")).encode(), word)
    code = code_of(client, bookkeeping.ASK_RESIDENCY, *values)
    assert outcome(client, code, bookkeeping.ASK_RESIDENCY, *values) == "22023"


LISTS: tuple[tuple[bytes | None, ...], ...] = (
    (),
    (None,),
    (b"",),
    (b"null", b"NULL", b"Nullx", None),
    (b"a b", b"a\tb", b"a\nb", b"a\x0bb", b"\x0c", b"\r"),
    (b'"', b"\\", b'\\"', b"{", b"}", b"{}", b",", b";", b"'"),
    ("é\u00a0\u2003日本".encode(), b"\x01\x7f"),
    (b'[{"a": [1, null, "x\\n"]}]', b"{1,2}", b"ROW EXCLUSIVE"),
)


def test_lists_of_arguments_are_spelled_as_by_postgresql(client: Client) -> None:
    for elements in LISTS:
        marks = ", ".join(f"${number}::text" for number in range(1, len(elements) + 1))
        asked = f"SELECT ARRAY[{marks}]::text[]::text"
        rows = client.session.execute_parameters(asked, elements).rows
        assert list(rows) == [[array_text(elements)]]
