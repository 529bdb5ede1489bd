"""What the gateway itself tells and asks is in UTF-8, whatever the client's encoding is."""

import pytest

from catalog.connection.client_encoding import in_ascii
from catalog.connection.own_texts import is_in_utf8, placed
from catalog.connection.steps import Close, Execute, Prepare, Query, Step
from catalog.errors import CatalogError
from catalog.session import names

pytestmark = pytest.mark.catalog

CLIENTS = Query("SELECT 'é'", is_clients=True)
OWN = Query("SELECT 'é'")
BEGIN = Query("BEGIN")
UNDO = Query("ROLLBACK TO a")


def kinds(*steps: Step, status: str = "I") -> str:
    """Write steps as letters: u in UTF-8, c not, and what changes that in brackets."""
    letters = []
    for one in placed(steps, status, "LATIN1"):
        if one.is_asked:
            letters.append("u" if one.is_own else "c")
        else:
            assert one.is_own
            letters.append("<" if "'UTF8'" in getattr(one.step, "sql", "") else ">")
    return "".join(letters)


def test_the_server_is_told_around_steps_of_ours() -> None:
    assert kinds(CLIENTS, BEGIN) == "cc"
    assert kinds(OWN) == "<u>"
    assert kinds(BEGIN, OWN, OWN, CLIENTS, OWN, Query("COMMIT")) == "c<uu>c<u>c"


def test_in_a_block_no_snapshot_is_taken_for_it() -> None:
    steps = (OWN, BEGIN, OWN, Query("COMMIT"), OWN, Query("ROLLBACK"), OWN)
    told = [
        str(getattr(one.step, "sql", ""))[:6]
        for one in placed(steps, "I", "LATIN1")
        if not one.is_asked
    ]
    assert told == ["SELECT"] * 2 + ["SET LO"] * 2 + ["SELECT"] * 4


def test_nothing_is_told_in_a_transaction_that_has_failed() -> None:
    assert kinds(OWN, status="E") == "c"
    assert kinds(UNDO, OWN, status="E") == "c<u>"


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (Query("LOCK TABLE a"), True),
        (Query("SAVEPOINT a"), False),
        (Query("COMMIT"), False),
        (Query("SELECT a()", [b"1"], result_format=1), True),
        (Query("SELECT a()", ["é".encode()], result_format=1), True),
        (Query("SELECT a()", [None], result_format=0), True),
        (Query(" (values (1))"), True),
        (Query('LOCK TABLE "é"'), True),
        (Query("SELECT 'é'", ["é".encode()], is_clients=True), False),
        (Execute("a", ["é".encode()], is_clients=True), False),
        (Execute("a"), True),
        (Prepare("a", "SELECT 1"), True),
        (Close("a"), False),
        (Close("é"), True),
    ],
)
def test_texts_of_ours_that_need_not_be_ascii_are_in_utf8(step: Step, *, expected: bool) -> None:
    assert is_in_utf8(step) is expected


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ('SELECT "é""\\😀"', 'SELECT U&"\\00e9""\\\\\\+01f600"'),
        ("SELECT 'it''s \\€'", "SELECT E'it''s \\\\\\u20ac'"),
        ("SELECT 'ab', E'é', $$é$$, é FROM \"t\" -- 'é'",) * 2,
    ],
)
def test_names_and_constants_can_be_spelled_in_ascii(sql: str, expected: str) -> None:
    assert in_ascii(sql) == expected


@pytest.fixture
def latin(connect):
    client = connect(client_encoding="LATIN1")
    client.run("SET client_encoding = 'UTF8'")
    client.run('CREATE TEMPORARY TABLE "щит" ("€" int PRIMARY KEY, "grün" text)')
    client.run("SET client_encoding = 'LATIN1'")
    return client


def test_names_are_told_that_a_client_has_no_characters_for(latin) -> None:
    relid = int(
        latin.value(
            "SELECT oid::int8 FROM pg_class WHERE relname = chr(1097) || chr(1080) || chr(1090)"
        )
    )
    assert names.relation_name(latin.session, relid).endswith('."щит"')
    assert latin.value("SHOW client_encoding") == "LATIN1"


def test_texts_of_ours_go_with_those_of_the_client(latin) -> None:
    session = latin.session
    session.transaction.begin()
    analysis = session.analyses.analyse("SELECT * FROM pg_class WHERE relname = 'é'")
    assert "relname" in [column.name for column in analysis.columns or ()]
    lines = ["1\tgrün\n".encode(), "2\tщ€\n".encode()]
    assert names.load(session, '"щит"', ["€", "grün"], lines) == "COPY 2"
    assert list(session.execute("SELECT 'é'").rows) == [[b"\xe9"]]
    shown = session.execute(
        "SELECT v::text FROM \"pg_class\" c, LATERAL (SELECT 'é') l (v) LIMIT 1"
    )
    assert list(shown.rows) == [[b"\xe9"]]
    session.transaction.commit()
    assert session.parameter_statuses()["client_encoding"] == "LATIN1"


def test_a_failure_of_ours_leaves_the_clients_encoding(latin) -> None:
    session = latin.session
    session.transaction.begin()
    with pytest.raises(CatalogError, match="é"):
        session.analyses.analyse('SELECT "é"')
    assert session.parameter_statuses()["client_encoding"] == "LATIN1"
    assert session.transaction.commit() == "ROLLBACK"
    assert list(session.execute("SELECT 'é'").rows) == [[b"\xe9"]]


def test_an_encoding_of_the_transaction_ends_with_it(latin) -> None:
    session = latin.session
    session.transaction.begin()
    list(session.execute("SET LOCAL client_encoding = 'WIN1251'").rows)
    names.type_name(session, 23, -1)
    assert list(session.execute("SELECT 'щ'").rows) == [[b"\xf9"]]
    session.transaction.commit()
    assert list(session.execute("SELECT 'é'").rows) == [[b"\xe9"]]


def test_a_text_of_another_encoding_can_be_shown(latin) -> None:
    assert latin.session.stand_in("SELECT 'é€'", lambda: True)
    latin.session.stand_down()
    assert list(latin.session.execute("SELECT 'é'").rows) == [[b"\xe9"]]


def test_what_cannot_be_spelled_otherwise_is_an_error(latin) -> None:
    with pytest.raises(CatalogError) as caught:
        latin.session.execute("SELECT щ")
    assert caught.value.sqlstate == "22P05"
    assert list(latin.session.execute("SELECT 'é'").rows) == [[b"\xe9"]]


def test_nothing_is_sent_with_what_cannot_be(latin) -> None:
    backend = latin.session._backend
    with pytest.raises(CatalogError) as caught:
        backend.run_all([BEGIN, Query("SELECT щ", is_clients=True), Query("COMMIT")])
    assert caught.value.sqlstate == "22P05"
    assert backend.transaction_status == "I"
    assert list(latin.session.execute("SELECT 'é'").rows) == [[b"\xe9"]]


def test_errors_of_ours_are_told(latin) -> None:
    with pytest.raises(CatalogError) as caught:
        latin.session.execute("SELECT chr(1097)::int", is_own=True)
    assert caught.value.sqlstate == "22P02"
    assert "щ" in caught.value.message
