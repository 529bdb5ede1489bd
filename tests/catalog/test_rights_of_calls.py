"""Rights that the bookkeeping asks for again: the right code is not enough without them."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import pytest

from catalog.bookkeeping import calls as bookkeeping
from catalog.bookkeeping.calls import Function, array
from catalog.errors import GatewayError
from tests.support.fix_catalog import Client, Inspector

pytestmark = pytest.mark.catalog

DENIED = "42501"

REFUSED = "permission denied for table t"

Call = tuple[Function, Callable[[bytes], Sequence[bytes | None]]]
"""A call, and what makes its arguments for a table."""

WRITES: Sequence[Call] = [
    (bookkeeping.BEGIN_WRITE, lambda t: (b"{%b}" % t, b"UPDATE", b"{}", b"cool")),
    (
        bookkeeping.ANNOUNCE,
        lambda t: (t, b"ROW EXCLUSIVE", b"t", b"keys", b"[[1]]", b"f", None, b"f", b"f", b"{}"),
    ),
    (bookkeeping.ANNOUNCE_TREE, lambda t: (t, b"{}", b"{}")),
    (bookkeeping.HOLD_LEAVES, lambda t: (t, b"{}", b"{}", b"t")),
    (bookkeeping.ADD_ROWS, lambda t: (t, t, b"[]")),
    (bookkeeping.CHANGE_LEAF, lambda t: (t, None, None)),
    (bookkeeping.HEAT_KEYS, lambda t: (t, b"[]", b"[]")),
    (bookkeeping.CAPTURE, lambda t: (t, b"1", b"1")),
    (bookkeeping.APPEND, lambda t: (t, b"1", None, None, b"f")),
    (bookkeeping.PUBLISH, lambda t: (t, b"1", b"[]")),
    (bookkeeping.REPLACE, lambda t: (t, b"1", b"[]", b"{}", None, None, b"0")),
    (bookkeeping.TRUNCATE, lambda t: (t, b"1", b"[]", b"0")),
    (bookkeeping.RESERVE_IDENTITIES, lambda t: (t, b"1")),
    (bookkeeping.CLEAR_DRAINED, lambda t: (t, b"f")),
    (bookkeeping.SET_KEY, lambda t: (t,)),
    (bookkeeping.NOTE_ROLLBACK, lambda t: (t, b"1", b"t", b"1")),
    (bookkeeping.THAW, lambda t: (t, b"[]")),
    (bookkeeping.CAPTURE_THAWED, lambda t: (t, b"1", b"{}", b"[]", b"[]")),
    (bookkeeping.HEAT_UNWAITED, lambda t: (t, b"[]", b"f")),
    (bookkeeping.LOCKED_KEYS, lambda t: (t,)),
    (bookkeeping.UNSEARCHED, lambda t: (t, b"1")),
    (bookkeeping.OPEN_DRAIN, lambda t: (t,)),
    (bookkeeping.SET_SATISFIED, lambda t: (t,)),
    (bookkeeping.BEGIN_LOAD, lambda t: (t,)),
    (bookkeeping.SHIPPED, lambda t: (t,)),
]
"""Calls that change a table's journal."""

READS: Sequence[Call] = [
    (bookkeeping.SNAPSHOT, lambda t: (b'[{"relid": %b}]' % t,)),
    (bookkeeping.WRITTEN_SINCE, lambda t: (t, b"1:1:", b"1")),
    (bookkeeping.PASSED, lambda t: (t, b"1", b"[]")),
    (bookkeeping.HOLD_SOURCE, lambda t: (t,)),
    (bookkeeping.SOURCE_ROWS, lambda t: (t, b"{1}", b"9")),
    (bookkeeping.COME_SINCE, lambda t: (t, b"{1}", b"1:1:", b"1")),
    (bookkeeping.COMPUTED_HOLDERS, lambda t: (t, t, b"{}")),
]
"""Calls that tell what is in a table or its journal."""

DEFINITIONS: Sequence[Call] = [
    (bookkeeping.ASK_RESIDENCY, lambda t: (t, b"never")),
    (bookkeeping.ASK_BOUND, lambda t: (t, b"hot_rows", b"9")),
    (bookkeeping.SET_DIVISION, lambda t: (t, b"[]")),
    (bookkeeping.MAKE_EXTERNAL, lambda t: (t, b"{}")),
    (bookkeeping.KEEP_SAVEPOINT, lambda t: (t, b"20200101000000000000", b"t")),
]
"""Calls that say what a table is: its owner's."""

_SHOWN = "tells what PostgreSQL shows every role, and no rows"
_REFUSES = "can do nothing but refuse"
_OWN = "is about what this transaction has noted, or takes from what it is told"
_LOCKS = "locks what PostgreSQL has let the role lock, or what a foreign key of it references"
_KEYS = "is about a foreign key that the transaction adds or has violated; PostgreSQL lets it do so"

ELSEWHERE: Mapping[Function, str] = {
    bookkeeping.DEFINITIONS: _SHOWN,
    bookkeeping.RELATIONS: _SHOWN,
    bookkeeping.JOURNALS_NAMED: _SHOWN,
    bookkeeping.PENDING_CONSTRAINTS: _SHOWN,
    bookkeeping.ADDED_REFERENCES: _SHOWN,
    bookkeeping.IS_LOADABLE: "tells whether a table is empty, as its size does",
    bookkeeping.CHECK_BODY: _REFUSES,
    bookkeeping.HOLD_CODE: "keeps tables from becoming tiered, as any definition does",
    bookkeeping.REFUSE_ABSENT: _REFUSES,
    bookkeeping.REFUSE_ADDED: _REFUSES,
    bookkeeping.REFUSE_TAKEN: _REFUSES,
    bookkeeping.TELL_PROPOSED: _OWN,
    bookkeeping.SOUGHT_VALUES: _OWN,
    bookkeeping.CONFIRM_REFERENCES: _OWN,
    bookkeeping.RELEASE_SOUGHT: _OWN,
    bookkeeping.RELEASE_REFERENCES: _OWN,
    bookkeeping.END_DEFERRING: _OWN,
    bookkeeping.TAKEN_REFERENCES: _OWN,
    bookkeeping.COMPUTED_VALUES: _OWN,
    bookkeeping.TEMPORARY_ROWS: "reads temporary tables, which are the session's own",
    bookkeeping.HOLD: _LOCKS,
    bookkeeping.HOLD_PARENT: _LOCKS,
    bookkeeping.BEGIN_ADDING: _KEYS,
    bookkeeping.SEEK_VALUES: _KEYS,
    bookkeeping.FIND_SOUGHT: _KEYS,
    bookkeeping.NOTE_SOUGHT: _KEYS,
    bookkeeping.END_ADDING: _KEYS,
    bookkeeping.FOLLOW_OWNERS: "gives journals the readers of their tables, whoever calls it",
    bookkeeping.EMPTIED: "asks whether the role may empty the tables",
    bookkeeping.VERSIONS_TO_ROLL_BACK: "tells of tables that the role may read",
    bookkeeping._EXPECTED: _REFUSES,
}
"""Calls that ask for no right of their own, and why."""


@pytest.fixture
def table(client: Client) -> bytes:
    client.run("CREATE TABLE t (a int PRIMARY KEY, b int)")
    return str(client.relid("t")).encode()


def refusal(client: Client, call: Call, table: bytes) -> str | None:
    """Make a call as the gateway does; return the message of a refusal for want of rights."""
    function, arguments = call
    client.run("BEGIN")
    try:
        client.session.call(function, *arguments(table))
    except GatewayError as error:
        return error.message if error.sqlstate == DENIED else None
    finally:
        client.session.transaction.rollback()
    return None


def refusals(client: Client, calls: Iterable[Call], table: bytes) -> dict[str, str | None]:
    """Return what each call is refused with."""
    return {call[0].name: refusal(client, call, table) for call in calls}


def of_all(calls: Iterable[Call], message: str | None) -> dict[str, str | None]:
    return dict.fromkeys((function.name for function, _ in calls), message)


def test_each_call_asks_for_rights_or_need_not() -> None:
    every = [value for value in vars(bookkeeping).values() if isinstance(value, Function)]
    listed = [function for function, _ in (*WRITES, *READS, *DEFINITIONS)]
    assert sorted(function.name for function in (*listed, *ELSEWHERE)) == sorted(
        function.name for function in every
    )


def test_what_is_said_of_them_is_true(inspector: Inspector) -> None:
    texts = dict(
        inspector.run(
            "SELECT proname, prosrc FROM pg_proc"
            " WHERE pronamespace = 'pg_journal'::regnamespace AND prosrc <> ''"
        )
    )
    asked = {"require_right(": [*WRITES, *READS], "require_owner(": DEFINITIONS}
    for question, calls in asked.items():
        expected = {function.name for function, _ in calls}
        every = {function.name for function, _ in (*WRITES, *READS, *DEFINITIONS)}
        every |= {function.name for function in ELSEWHERE}
        assert {name for name in every if question in (texts[name] or "")} == expected


def test_who_does_not_own_a_table_does_not_define_it(
    client: Client, reader: Client, table: bytes
) -> None:
    client.run("GRANT ALL ON t TO PUBLIC")
    owners = "must be owner of table public.t"
    assert refusals(reader, DEFINITIONS, table) == of_all(DEFINITIONS, owners)
    assert refusals(client, DEFINITIONS, table) == of_all(DEFINITIONS, None)


def test_who_has_no_right_on_a_table_is_refused(
    client: Client, reader: Client, table: bytes
) -> None:
    calls = [*WRITES, *READS]
    assert refusals(reader, calls, table) == of_all(calls, REFUSED)
    assert refusals(client, calls, table) == of_all(calls, None)


def test_who_may_only_read_does_not_write(client: Client, reader: Client, table: bytes) -> None:
    client.run("GRANT SELECT, REFERENCES, TRIGGER ON t TO PUBLIC")
    assert refusals(reader, WRITES, table) == of_all(WRITES, REFUSED)
    client.run("GRANT UPDATE (b) ON t TO PUBLIC")
    assert refusals(reader, WRITES, table) == of_all(WRITES, None)


def test_any_right_leads_to_what_is_read(client: Client, reader: Client, table: bytes) -> None:
    for right in ("SELECT", "SELECT (b)", "INSERT", "UPDATE (a)", "MAINTAIN"):
        client.run(f"GRANT {right} ON t TO PUBLIC")
        assert refusals(reader, READS, table) == of_all(READS, None)
        client.run(f"REVOKE {right} ON t FROM PUBLIC")
        assert refusals(reader, READS, table) == of_all(READS, REFUSED)


@pytest.mark.parametrize(
    ("made", "name"),
    [
        ("CREATE VIEW v AS SELECT a, b FROM t", "v"),
        ("CREATE VIEW w AS SELECT a FROM t; CREATE VIEW v AS SELECT a FROM w", "v"),
        ("CREATE TABLE p (a int PRIMARY KEY REFERENCES t ON UPDATE CASCADE)", "p"),
        (
            "CREATE TABLE p (a int PRIMARY KEY); ALTER TABLE t ADD FOREIGN KEY (b) REFERENCES p",
            "p",
        ),
    ],
)
def test_what_leads_to_a_table_is_enough(
    client: Client, reader: Client, table: bytes, made: str, name: str
) -> None:
    for statement in made.split(";"):
        client.run(statement)
    write, read = WRITES[0], READS[0]
    assert refusal(reader, read, table) == REFUSED
    client.run(f"GRANT SELECT ON {name} TO PUBLIC")
    assert refusal(reader, read, table) is None
    assert refusal(reader, write, table) == REFUSED
    client.run(f"GRANT UPDATE, DELETE ON {name} TO PUBLIC")
    assert refusal(reader, write, table) is None


def test_rights_on_a_partitioned_table_are_enough(client: Client, reader: Client) -> None:
    client.run("CREATE TABLE p (a int, b int) PARTITION BY LIST (a)")
    client.run("CREATE TABLE t PARTITION OF p FOR VALUES IN (1)")
    table = str(client.relid("t")).encode()
    assert refusal(reader, WRITES[0], table) == REFUSED
    client.run("GRANT INSERT ON p TO PUBLIC")
    assert refusal(reader, WRITES[0], table) is None


def test_it_is_the_role_that_the_session_acts_as(
    client: Client, reader: Client, table: bytes
) -> None:
    client.run("GRANT SELECT ON t TO PUBLIC")
    client.run("CREATE ROLE acting")
    client.run("GRANT acting TO SESSION_USER WITH SET TRUE, INHERIT FALSE")
    client.run("SET ROLE acting")
    assert refusal(client, WRITES[0], table) == REFUSED
    client.run("RESET ROLE")
    assert refusal(client, WRITES[0], table) is None


def test_a_right_that_is_taken_away_in_the_middle_is_missed(
    client: Client, reader: Client, table: bytes
) -> None:
    client.run("GRANT SELECT, UPDATE ON t TO PUBLIC")
    reader.run("BEGIN")
    versions, _ = reader.session.writes.begin_write([int(table)])
    client.run("REVOKE UPDATE ON t FROM PUBLIC")
    with pytest.raises(GatewayError) as caught:
        reader.session.journals.publish(int(table), versions[int(table)], [])
    assert caught.value.sqlstate == DENIED
    reader.session.transaction.rollback()


def test_tables_that_are_gone_are_not_denied(client: Client, reader: Client) -> None:
    assert reader.session.call(bookkeeping.RELATIONS, array([4_000_000]))
    assert refusal(reader, WRITES[0], b"4000000") is None
