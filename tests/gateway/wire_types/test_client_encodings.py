"""Text in the client's encoding: what is converted, what is left, and what is refused."""

import struct

import pyarrow as pa
import pytest

from catalog.errors import GatewayError
from catalog.pg.types import (
    BOX,
    BYTEA,
    INT4,
    INT4_ARRAY,
    JSONB,
    NUMERIC,
    TEXT,
    TEXT_ARRAY,
    VARCHAR,
    XML,
)
from pgwire_gateway.wire_types.client_encodings import (
    UntranslatableError,
    converted,
    encoded_text,
    require_convertible,
)
from pgwire_gateway.wire_types.client_values import in_utf8, recoded
from pgwire_gateway.wire_types.copy_encoder import CopyEncoder, CopyOptions
from pgwire_gateway.wire_types.mixed_formats import with_binary_columns
from pgwire_gateway.wire_types.row_encoder import ResultColumn, RowEncoder
from pgwire_gateway.wire_types.settings import EncodingSettings

WORDS = ["grün", None, "", "plain", "ß", "a\nÄ"]


@pytest.mark.parametrize("encoding", ["LATIN1", "WIN1252", "GBK", "GB18030"])
@pytest.mark.parametrize("kind", [pa.string(), pa.binary()])
def test_values_are_converted_one_by_one(encoding: str, kind: pa.DataType) -> None:
    words = [word and word.replace("Ä", "ü").replace("ß", "é") for word in WORDS]
    values = pa.array(words, pa.string()).cast(kind)
    codec = require_convertible(encoding)
    expected = [None if word is None else word.encode(codec) for word in words]
    assert converted(values, encoding).to_pylist() == expected
    assert converted(values.slice(2), encoding).to_pylist() == expected[2:]
    assert converted(values.slice(0, 1), encoding).to_pylist() == expected[:1]


@pytest.mark.parametrize("encoding", ["UTF8", "SQL_ASCII"])
def test_what_clients_of_utf8_get_is_what_is_held(encoding: str) -> None:
    values = pa.array(WORDS)
    assert converted(values, encoding) is values


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["a", None, "b"]),
        pa.array([], pa.string()),
        pa.array([None], pa.string()),
        pa.array([b"ab", b"cd"], pa.binary(2)),
        pa.array(["é", "a"]).slice(1),
    ],
)
def test_ascii_is_left_as_it_is(values: pa.Array) -> None:
    assert converted(values, "LATIN1") is values


def test_a_character_without_equivalent_is_postgresqls_error() -> None:
    with pytest.raises(UntranslatableError) as caught:
        converted(pa.array(["a", "x€é"]), "LATIN1")
    assert caught.value.sqlstate == "22P05"
    assert caught.value.message == (
        'character with byte sequence 0xe2 0x82 0xac in encoding "UTF8" has no equivalent in'
        ' encoding "LATIN1"'
    )
    assert encoded_text("x€é", "WIN1252") == b"x\x80\xe9"


@pytest.mark.parametrize("encoding", ["EUC_KR", "JOHAB"])
def test_other_encodings_are_refused_by_name(encoding: str) -> None:
    with pytest.raises(GatewayError, match=encoding) as caught:
        converted(pa.array(["a"]), encoding)
    assert caught.value.sqlstate == "0A000"


def sent(type_oid: int, values: pa.Array, code: int, encoding: str = "LATIN1") -> list[bytes]:
    column = ResultColumn(type_oid, -1, code, "v")
    encoder = RowEncoder([column], EncodingSettings(client_encoding=encoding))
    batch = pa.RecordBatch.from_arrays([values], names=["v"])
    return [bytes(chunk) for chunk in encoder.chunks(batch)]


@pytest.mark.parametrize(
    ("type_oid", "values", "code", "expected"),
    [
        (TEXT, pa.array(["é"]), 0, b"\xe9"),
        (VARCHAR, pa.array(["é"]), 1, b"\xe9"),
        (JSONB, pa.array(['{"é": 1}']), 0, b'{"\xe9": 1}'),
        (JSONB, pa.array(['{"é": 1}']), 1, b'\x01{"\xe9": 1}'),
        (XML, pa.array(["<é/>"]), 0, b"<\xe9/>"),
        (TEXT_ARRAY, pa.array([["é", None, "a b"]]), 0, b'{\xe9,NULL,"a b"}'),
        (
            TEXT_ARRAY,
            pa.array([["é"]]),
            1,
            struct.pack("!iiIiii", 1, 0, TEXT, 1, 1, 1) + b"\xe9",
        ),
        (BYTEA, pa.array([b"\xc3\xa9"]), 1, b"\xc3\xa9"),
        (INT4, pa.array([0xE9], pa.int32()), 1, b"\0\0\0\xe9"),
        (NUMERIC, pa.array(["1.50"]), 0, b"1.50"),
    ],
)
def test_rows_are_sent_in_the_clients_encoding(
    type_oid: int, values: pa.Array, code: int, expected: bytes
) -> None:
    (message,) = sent(type_oid, values, code)
    length = struct.pack("!i", len(expected))
    assert message == b"D" + struct.pack("!ih", len(expected) + 10, 1) + length + expected


def test_rows_before_the_one_that_cannot_be_sent_are_sent() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array(["a", "é", "b", "€", "c"])], names=["v"])
    encoder = RowEncoder(
        [ResultColumn(TEXT, -1, 0, "v")], EncodingSettings(client_encoding="LATIN1")
    )
    chunks = encoder.chunks(batch)
    data = [bytes(next(chunks)), bytes(next(chunks))]
    assert b"".join(data).count(b"D\0\0\0") == 3
    with pytest.raises(UntranslatableError):
        next(chunks)


def test_a_client_may_change_its_encoding() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array(["€"])], names=["v"])
    encoder = RowEncoder([ResultColumn(TEXT, -1, 0, "v")])
    assert bytes(encoder.encode(batch)).endswith("€".encode())
    encoder.encode_in("WIN1252")
    assert bytes(encoder.encode(batch)).endswith(b"\0\x01\x80")
    encoder.encode_in("LATIN1")
    with pytest.raises(UntranslatableError):
        encoder.encode(batch)


def copied(words: list[str], options: CopyOptions, encoding: str) -> bytes:
    column = ResultColumn(TEXT, -1, 0, "v")
    settings = EncodingSettings(client_encoding=encoding)
    encoder = CopyEncoder([column], ["ü"], options, settings)
    batch = pa.RecordBatch.from_arrays([pa.array(words)], names=["v"])
    return encoder.header() + b"".join(encoder.chunks(batch)) + encoder.trailer()


def test_copied_rows_have_the_clients_encoding_or_another_one() -> None:
    header = CopyOptions("csv", header=True)
    assert copied(["é"], header, "LATIN1") == b"d\0\0\0\x06\xfc\nd\0\0\0\x06\xe9\n"
    assert copied(["é"], CopyOptions(encoding="UTF8"), "LATIN1").endswith("é\n".encode())
    assert copied(["é"], CopyOptions(encoding="LATIN1"), "UTF8").endswith(b"\xe9\n")
    # In binary the option says nothing.
    binary = CopyOptions("binary", encoding="UTF8")
    assert b"\0\0\0\x01\xe9" in copied(["é"], binary, "LATIN1")


def test_what_becomes_a_backslash_is_escaped() -> None:
    assert copied(["1¥"], CopyOptions(), "SJIS").endswith(b"1\\\\\n")


def test_values_that_wait_follow_the_client() -> None:
    array = (
        struct.pack("!iiIiii", 1, 1, TEXT, 3, 1, 2) + "é".encode() + b"\xff" * 4 + b"\0\0\0\x01a"
    )
    row = ["é".encode(), "é".encode(), b"\xc3\xa9", None, array, b"a"]
    types = [XML, TEXT, BYTEA, TEXT, TEXT_ARRAY, INT4]
    ((text, word, octets, null, words, plain),) = recoded(
        [row], types, [0, 1, 1, 0, 1, 0], "UTF8", "LATIN1"
    )
    assert (text, word, octets, null, plain) == (b"\xe9", b"\xe9", b"\xc3\xa9", None, b"a")
    assert words[20:] == b"\0\0\0\x01\xe9" + b"\xff" * 4 + b"\0\0\0\x01a"
    ((numbers,),) = recoded([[b"\xff\xfe"]], [INT4_ARRAY], [1], "UTF8", "LATIN1")
    assert numbers == b"\xff\xfe"


def test_values_of_which_it_is_not_known_where_they_have_text_are_refused() -> None:
    with pytest.raises(GatewayError) as caught:
        recoded([[b"\xff"]], [XML], [1], "UTF8", "LATIN1")
    assert caught.value.sqlstate == "0A000"


@pytest.mark.parametrize(
    ("value", "type_oid", "encoding", "expected"),
    [
        (b"\xe9", TEXT, "LATIN1", "é".encode()),
        (b"\xe9", BYTEA, "LATIN1", b"\xe9"),
        (b"\xe9", BOX, "LATIN1", b"\xe9"),
        ("é".encode(), TEXT, "UTF8", "é".encode()),
        (b"a", TEXT, "EUC_KR", b"a"),
        (None, TEXT, "LATIN1", None),
    ],
)
def test_bound_values_are_read_in_the_clients_encoding(
    value: bytes | None, type_oid: int, encoding: str, expected: bytes | None
) -> None:
    assert in_utf8(value, type_oid, encoding) == expected


def test_columns_of_several_formats_keep_the_clients_encoding() -> None:
    rows = [[b"\xe9", b"\xe9"], [None, b"a"]]
    assert with_binary_columns(rows, [TEXT, TEXT], [1, 0], "LATIN1") == rows


def test_what_is_no_array_is_refused() -> None:
    with pytest.raises(GatewayError) as caught:
        in_utf8(b"\x00\x00\x00\x01\xff", TEXT_ARRAY, "LATIN1")
    assert caught.value.sqlstate == "22P03"


def test_ascii_is_read_in_encodings_that_are_not_converted() -> None:
    assert with_binary_columns([[b"7"]], [INT4], [1], "EUC_KR") == [[b"\x00\x00\x00\x07"]]
    with pytest.raises(GatewayError) as caught:
        with_binary_columns([[b"\xb0\xa1"]], [TEXT], [1], "EUC_KR")
    assert caught.value.sqlstate == "0A000"
