"""Binary parameters to Python values."""

from contextlib import suppress
from datetime import UTC, date, datetime, time
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.errors import GatewayError
from pgwire_gateway.wire_types.parameters import decode
from pgwire_gateway.wire_types.type_oids import ELEMENT_OF_ARRAY
from tests.gateway.wire_types.oracle import Oracle

CASES = {
    "bool": {"t": True, "f": False},
    "int2": {"-32768": -32768},
    "int4": {"-2147483648": -2147483648, "7": 7},
    "int8": {"9223372036854775807": 2**63 - 1},
    "oid": {"4294967295": 2**32 - 1},
    "float4": {"1.5": 1.5, "Infinity": float("inf")},
    "float8": {"0.1": 0.1, "-Infinity": float("-inf")},
    "numeric": {
        "0": Decimal(0),
        "0.000": Decimal("0.000"),
        "1.50": Decimal("1.50"),
        "-12345678901234567890.123456789": Decimal("-12345678901234567890.123456789"),
        "100000000": Decimal(100000000),
        "0.00010000": Decimal("0.00010000"),
        "1e100": Decimal(10**100),
        "Infinity": Decimal("Infinity"),
        "-Infinity": Decimal("-Infinity"),
    },
    "text": {"": "", "é😀": "é😀"},
    "varchar": {"abc": "abc"},
    "bpchar(5)": {"abc": "abc  "},
    '"char"': {"": "", "a": "a", "\\351": "\\351"},
    "name": {"pg_class": "pg_class"},
    "bytea": {"\\x00ff": b"\x00\xff", "\\x": b""},
    "date": {"0001-01-01": date(1, 1, 1), "9999-12-31": date(9999, 12, 31)},
    "time": {"12:30:00.5": time(12, 30, 0, 500_000)},
    "timestamp": {
        "1969-12-31 23:59:59.999999": datetime(1969, 12, 31, 23, 59, 59, 999_999),  # noqa: DTZ001
    },
    "timestamptz": {"2024-02-29 12:00:00+02": datetime(2024, 2, 29, 10, tzinfo=UTC)},
    "interval": {"1 year -3 days 00:00:01.5": (12, -3, 1_500_000)},
    "uuid": {
        "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11": UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    },
    "json": {'{"a" : 1}': '{"a" : 1}'},
    "jsonb": {'{"a" : 1}': '{"a": 1}'},
    "int4[]": {"{1,NULL,3}": [1, None, 3], "{}": []},
    "text[]": {'{a,"",NULL}': ["a", "", None]},
    "numeric[]": {"{1.50}": [Decimal("1.50")]},
    "date[]": {"{2024-02-29}": [date(2024, 2, 29)]},
}


@pytest.mark.catalog
@pytest.mark.parametrize("kind", CASES)
def test_value_is_the_one_sent(oracle: Oracle, kind: str):
    oracle.apply(oracle.settings())
    type_oid, _ = oracle.type_of(kind)
    sent = [field for (field,) in oracle.values(kind, list(CASES[kind]), 1)]
    decoded = [decode(type_oid, field) for field in sent]
    assert decoded == list(CASES[kind].values())
    assert [repr(value) for value in decoded] == [repr(value) for value in CASES[kind].values()]


@pytest.mark.catalog
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        *(("date", "infinity"), ("date", "10000-01-01"), ("date", "0001-01-01 BC")),
        *(("timestamp", "-infinity"), ("timestamptz", "10000-01-01"), ("time", "24:00")),
        *(("numeric", "9" * 5000), ("numeric", "8e5000"), ("numeric[]", "{8e5000}")),
        *(("int4[]", "{{1},{2}}"), ("int4[]", "[0:1]={1,2}"), ("inet", "10.0.0.1")),
    ],
)
def test_what_has_no_python_form_is_unsupported(oracle: Oracle, kind: str, value: str):
    type_oid, _ = oracle.type_of(kind)
    ((sent,),) = oracle.values(kind, [value], 1)
    with pytest.raises(GatewayError) as caught:
        decode(type_oid, sent)
    assert caught.value.sqlstate == "0A000"


def test_null_is_none_and_nan_is_decimal():
    assert decode(23, None) is None
    assert decode(1700, b"\0\0\0\0\xc0\0\0\0").is_nan()


@pytest.mark.parametrize(
    ("type_oid", "data"),
    [
        *((23, b"\0"), (16, b""), (1700, b"\0\1\0\0\0\0\0\0"), (25, b"\xff"), (2950, b"\0")),
        *((3802, b"\2{}"), (1007, b"\0"), (18, b"ab"), (1186, b"\0" * 15)),
        (1007, b"\0\0\0\1\0\0\0\0\0\0\0\x17\0\0\0\2\0\0\0\1\0\0\0\4\0\0\0\1"),
    ],
)
def test_malformed_data_is_refused(type_oid: int, data: bytes):
    with pytest.raises(GatewayError) as caught:
        decode(type_oid, data)
    assert caught.value.sqlstate == "22P03"


OIDS = [16, 17, 18, 20, 21, 23, 25, 700, 701, 1082, 1083, 1114, 1184, 1186, 1700, 2950, 3802]


@given(st.sampled_from([*OIDS, *ELEMENT_OF_ARRAY]), st.binary(max_size=64))
def test_no_data_raises_anything_but_our_error(type_oid: int, data: bytes):
    with suppress(GatewayError):
        decode(type_oid, data)
