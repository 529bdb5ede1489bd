"""Which messages make a series, and which query strings are the same but for their literals."""

import pytest

from pgwire_gateway.messages import Bind, Describe, Execute, Flush, ObjectKind, Parse, Query, Sync
from pgwire_gateway.protocol.series import is_cut, series_of
from pgwire_gateway.session.shortcuts import shape


def test_a_series_ends_with_sync_and_its_form_knows_no_values():
    parse, sync = Parse("s", "SELECT $1").encode(), Sync().encode()
    describe, execute = Describe(ObjectKind.PORTAL).encode(), Execute().encode()
    one, other = (Bind("", "s", (1,), (value,), (1,)).encode() for value in (b"x", b"yy"))
    first = series_of(parse + one + describe + execute + sync + parse)
    second = series_of(parse + other + describe + execute + sync)
    assert first is not None
    assert second is not None
    assert first.form == second.form == (parse, b"B\0s\0", describe, execute)
    assert first.values == [one[8:]]
    assert first.data == parse + one + describe + execute
    assert first.end == len(parse + one + describe + execute + sync)


@pytest.mark.parametrize(
    "other", [Flush().encode(), Query("SELECT 1").encode(), b"", b"S\0\0\0\5x"]
)
def test_other_messages_are_no_series(other):
    assert series_of(Parse("", "SELECT 1").encode() + Bind("", "").encode() + other) is None


def test_a_message_that_is_not_complete_is_waited_for():
    data = Bind("", "").encode() + Execute().encode()
    assert not is_cut(data)
    assert not is_cut(b"")
    assert is_cut(data[:-1])
    assert is_cut(data + b"S")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SELECT a FROM t WHERE b = 1", "SELECT a FROM t WHERE b = 23"),
        ("SELECT a FROM t WHERE b = 'x'", "SELECT a FROM t WHERE b = 'it is 5'"),
        ("INSERT INTO t VALUES (1,'a',-2)", "INSERT INTO t VALUES (9,'',-3)"),
    ],
)
def test_query_strings_differ_in_literals(one, other):
    assert shape(one.encode()) == shape(other.encode())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SELECT a1 FROM t", "SELECT a2 FROM t"),
        ('SELECT "a 1" FROM t', 'SELECT "a 2" FROM t'),
        ("SELECT 'a', 'b' FROM t", "SELECT 'a'', ''b' FROM t"),
        ("SELECT 1", "SELECT 1.5"),
        ("SELECT 1", "SELECT 1e5"),
        ("SELECT 1", "SELECT 3000000000"),
        ("SELECT 1", "SELECT '1'"),
        ("SELECT 'a' 'b'", "SELECT 'a'"),
        ("SELECT $$a$$", "SELECT $$b$$"),
        ("SELECT 1 -- 'a", "SELECT 2 -- 'a"),
        ("SELECT E'\\'1'", "SELECT E'\\'2'"),
    ],
)
def test_query_strings_differ_in_more(one, other):
    assert shape(one.encode()) != shape(other.encode())
