"""What the gateway reads of parameters by itself is what PostgreSQL reads."""

import struct
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg import pq

from pgwire_gateway.wire_types import plain_values, type_oids
from tests.gateway.wire_types.oracle import Oracle

TEXTS = {
    type_oids.BOOL: ("t", "f", "true", "false", "T", "yes", "1", " t", "off", ""),
    type_oids.INT2: ("0", "-1", "+7", "32767", "-32768", "32768", " 1", "0x10", "1_000", "007"),
    type_oids.INT4: ("2147483647", "-2147483648", "2147483648", "1.0", "\u0661", "-", "+0", "--1"),
    type_oids.INT8: ("9223372036854775807", "-9223372036854775808", "9223372036854775808", "1e3"),
    type_oids.NUMERIC: (
        *("0", "-0", "0.00", "00012.50", "-1", "10000", "99999999", "0.0001", "0.00010", "-0.0"),
        *("12345678901234567890.123456789", "1e5", "NaN", ".5", "5.", "+1", " 1", "1" * 301, ""),
    ),
    type_oids.FLOAT8: ("0.1", "-0", "-0.0", "123456789012345.123456789012345", "1e5", "NaN", ".5"),
    type_oids.DATE: (
        *("2024-02-29", "2023-02-29", "0001-01-01", "9999-12-31", "0000-01-01", "2024-13-01"),
        *("2024-1-1", "24-01-02", "01-02-2024", "infinity", "today", "2024-01-01 BC", " 2024"),
    ),
    type_oids.TIMESTAMP: (
        *("2024-02-29 12:34:56", "2024-02-29T12:34:56.7", "2024-02-29 12:34:56.123456"),
        *("2024-02-29 24:00:00", "2024-02-29 23:59:60", "2024-02-29", "2024-02-29 12:34"),
        *("2024-02-29 12:34:56.1234567", "2024-02-29 12:34:56+02", "0001-01-01 00:00:00"),
    ),
    type_oids.TIMESTAMPTZ: (
        *("2024-02-29 12:34:56+00", "2024-02-29 12:34:56-05:30", "2024-02-29T12:34:56.5Z"),
        *("2024-02-29 12:34:56", "2024-02-29 12:34:56+0530", "2024-02-29 12:34:56+14"),
        *("2024-02-29 12:34:56 UTC", "2024-02-29 12:34:56+15:00:01", "0001-01-01 00:00:00+14"),
    ),
    type_oids.UUID: (
        *("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"),
        *("a0eebc999c0b4ef8bb6d6bb9bd380a11", "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}", "x"),
    ),
    type_oids.BYTEA: ("\\x", "\\x00fF", "\\x0", "\\xzz", "abc", "\\x00 ff", "a\\\\b"),
    type_oids.TEXT: ("", "é😀", " a ", "\x01"),
    type_oids.VARCHAR: ("", "abc  "),
    type_oids.BPCHAR: ("abc  ", ""),
}

READ = {
    type_oids.BOOL: 4,
    type_oids.INT2: 6,
    type_oids.INT4: 3,
    type_oids.INT8: 2,
    type_oids.NUMERIC: 11,
    type_oids.FLOAT8: 4,
    type_oids.DATE: 3,
    type_oids.TIMESTAMP: 4,
    type_oids.TIMESTAMPTZ: 6,
    type_oids.UUID: 2,
    type_oids.BYTEA: 2,
    type_oids.TEXT: 4,
    type_oids.VARCHAR: 2,
    type_oids.BPCHAR: 2,
}
"""How many of the texts are read without PostgreSQL."""


def asked(oracle: Oracle, oid: int, value: bytes, code: int) -> bytes | None:
    """Return what PostgreSQL reads, in binary; None for a value that it refuses."""
    result = oracle.connection.pgconn.exec_params(
        b"SELECT $1", [value], [oid], [code], pq.Format.BINARY
    )
    return result.get_value(0, 0) if result.status == pq.ExecStatus.TUPLES_OK else None


def read(oid: int, value: bytes, code: int = 0, *, is_utf8: bool = True) -> bytes | None:
    found = plain_values.read([oid], [value], [code], is_utf8=is_utf8)
    return None if found is None else found[0]


@pytest.mark.catalog
@pytest.mark.parametrize("style", ["ISO, MDY", "SQL, DMY", "German, YMD", "Postgres, DMY"])
@pytest.mark.parametrize("oid", TEXTS)
def test_texts_are_read_as_postgresql_reads_them(oracle: Oracle, oid: int, style: str) -> None:
    with oracle.connection.transaction(force_rollback=True):
        oracle.connection.execute("SELECT set_config('DateStyle', %s, true)", (style,))
        oracle.connection.execute("SET LOCAL TimeZone = 'Asia/Kolkata'")
        told = {}
        for text in TEXTS[oid]:
            value = read(oid, text.encode())
            if value is not None:
                told[text] = value
                assert asked(oracle, oid, text.encode(), 0) == value, text
        assert len(told) == READ[oid], told


@pytest.mark.catalog
@given(
    sign=st.sampled_from(["", "-"]),
    whole=st.from_regex(r"[0-9]{1,30}", fullmatch=True),
    fraction=st.from_regex(r"(\.[0-9]{1,30})?", fullmatch=True),
)
def test_numbers_are_read_as_postgresql_reads_them(
    oracle: Oracle, sign: str, whole: str, fraction: str
) -> None:
    text = (sign + whole + fraction).encode()
    assert read(type_oids.NUMERIC, text) == asked(oracle, type_oids.NUMERIC, text, 0)
    value = read(type_oids.FLOAT8, text)
    assert value in {None, asked(oracle, type_oids.FLOAT8, text, 0)}


@pytest.mark.catalog
@given(moment=st.datetimes(timezones=st.just(UTC)))
def test_times_are_read_as_postgresql_reads_them(oracle: Oracle, moment: datetime) -> None:
    kinds = {
        type_oids.TIMESTAMPTZ: moment.isoformat(),
        type_oids.TIMESTAMP: moment.replace(tzinfo=None).isoformat(" "),
        type_oids.DATE: moment.date().isoformat(),
    }
    for oid, text in kinds.items():
        value = read(oid, text.encode())
        assert value is not None
        assert value == asked(oracle, oid, text.encode(), 0)


BINARY = {
    type_oids.BOOL: (b"\0", b"\1", b"\2", b""),
    type_oids.INT4: (b"\0\0\0\7", b"\0\0\7", b"\0\0\0\0\7"),
    type_oids.INT8: (b"\xff" * 8, b"\xff" * 4),
    type_oids.FLOAT8: (struct.pack("!d", float("nan")), struct.pack("!d", -0.0), b"\0"),
    type_oids.DATE: tuple(
        struct.pack("!i", days) for days in (0, -(2**31), 2**31 - 1, 2**31 - 2, -2_000_000)
    ),
    type_oids.TIMESTAMP: tuple(struct.pack("!q", n) for n in (0, -(2**63), 2**63 - 2, 10**17)),
    type_oids.UUID: (b"0123456789abcdef", b"0123"),
    type_oids.BYTEA: (b"", b"\0\xff"),
    type_oids.TEXT: (b"a", b"\0", b"\xff", "é".encode(), b"\xed\xa0\x80", b"\xc0\x80"),
}


@pytest.mark.catalog
@pytest.mark.parametrize("oid", BINARY)
def test_binary_values_are_taken_where_postgresql_takes_them(oracle: Oracle, oid: int) -> None:
    taken = 0
    for data in BINARY[oid]:
        value = read(oid, data, 1)
        if value is not None:
            taken += 1
            assert asked(oracle, oid, data, 1) == value, data
    assert taken


def test_texts_of_other_encodings_are_postgresqls_to_read() -> None:
    assert read(type_oids.TEXT, "é".encode(), is_utf8=False) is None
    assert read(type_oids.TEXT, b"e", is_utf8=False) == b"e"


def test_one_value_that_is_not_plain_leaves_all_to_postgresql() -> None:
    oids, values = [type_oids.INT4, type_oids.INT4, type_oids.JSON], [b"1", None, None]
    assert plain_values.read(oids, values, [0, 0, 0], is_utf8=True) == (b"\0\0\0\1", None, None)
    assert plain_values.read(oids, [b"1", b" 2", None], [0, 0, 0], is_utf8=True) is None
    assert plain_values.read(oids, [b"1", None, b"{}"], [0, 0, 0], is_utf8=True) is None
