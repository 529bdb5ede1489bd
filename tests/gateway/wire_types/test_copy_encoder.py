"""COPY TO STDOUT: every CopyData message is the one PostgreSQL sends."""

import pyarrow as pa
import pytest
from psycopg import ClientCursor

from pgwire_gateway.wire_types.copy_encoder import CopyEncoder, CopyOptions
from pgwire_gateway.wire_types.row_encoder import ResultColumn
from tests.gateway.wire_types.oracle import Oracle

TEXT, INT4 = 25, 23
VALUES = [
    *(
        "a",
        "",
        None,
        "a,b",
        'q"u',
        "new\nline",
        "cr\r",
        "tab\t",
        "\\.",
        "\\",
        "NULL",
        "\\N",
        " sp ",
    ),
    *("x\bx\fx\v", "é,😀", "\\x", "it's", "{}", "a|b;c", "''", "\x01"),
]
OPTIONS = {
    "": CopyOptions(),
    "DELIMITER '|', NULL ''": CopyOptions(delimiter="|", null=""),
    "HEADER": CopyOptions(header=True),
    "NULL 'a', DELIMITER E'\\x01'": CopyOptions(null="a", delimiter="\x01"),
    "FORMAT csv": CopyOptions("csv"),
    "FORMAT csv, HEADER": CopyOptions("csv", header=True),
    "FORMAT csv, FORCE_QUOTE *": CopyOptions("csv", force_quote=True),
    'FORMAT csv, FORCE_QUOTE ("a""b"), HEADER': CopyOptions(
        "csv", force_quote=frozenset({'a"b'}), header=True
    ),
    "FORMAT csv, QUOTE '''', ESCAPE E'\\\\', DELIMITER ';', NULL 'NULL'": CopyOptions(
        "csv", quote="'", escape="\\", delimiter=";", null="NULL"
    ),
    "FORMAT csv, NULL '\\N', ESCAPE 'e'": CopyOptions("csv", null="\\N", escape="e"),
    "FORMAT binary": CopyOptions("binary"),
}


def _messages(data: bytes) -> list[bytes]:
    payloads = []
    while data:
        assert data[:1] == b"d"
        end = 1 + int.from_bytes(data[1:5], "big")
        payloads.append(data[5:end])
        data = data[end:]
    return payloads


def _copied(encoder: CopyEncoder, *batches: pa.RecordBatch) -> list[bytes]:
    rows = b"".join(chunk for batch in batches for chunk in encoder.chunks(batch))
    return _messages(encoder.header() + rows + encoder.trailer())


def _expected(oracle: Oracle, values: list, names: list[str], options: str) -> list[bytes]:
    columns = ", ".join(f'{what} AS "{name.replace(chr(34), chr(34) * 2)}"' for name, what in names)
    query = f"SELECT {columns} FROM unnest(%s::text[]) WITH ORDINALITY AS t (v, n) ORDER BY n"
    with ClientCursor(oracle.connection) as cursor:
        bound = cursor.mogrify(query, [values])
        with cursor.copy(f"COPY ({bound}) TO STDOUT" + f" ({options})" * bool(options)) as copy:
            return [bytes(chunk) for chunk in copy]


@pytest.mark.catalog
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("values", [VALUES, []], ids=["rows", "empty"])
def test_messages_are_those_of_postgresql(oracle: Oracle, options: str, columns: int, values: list):
    names = [('a"b', "v"), ("c", "n::int4")][:columns]
    batch = pa.record_batch(
        {"v": pa.array(values, "str"), "n": pa.array(range(1, len(values) + 1), pa.int32())}
    )
    encoder = CopyEncoder(
        [ResultColumn(TEXT, -1, 0, "v"), ResultColumn(INT4, -1, 0, "n")][:columns],
        [name for name, _ in names],
        OPTIONS[options],
    )
    half = len(values) // 2
    copied = _copied(encoder, batch.slice(0, half), batch.slice(half))
    assert copied == _expected(oracle, values, names, options)


@pytest.mark.catalog
@pytest.mark.parametrize("delimiter", ["-", ":", " "])
def test_dates_are_escaped_where_they_hold_the_delimiter(oracle: Oracle, delimiter: str):
    oracle.apply(oracle.settings())
    batch = pa.record_batch({"t": pa.array([0, None], pa.int64()).cast(pa.timestamp("us"))})
    for options, sql in (
        (CopyOptions(delimiter=delimiter), f"DELIMITER '{delimiter}'"),
        (CopyOptions("csv", delimiter=delimiter), f"FORMAT csv, DELIMITER '{delimiter}'"),
    ):
        encoder = CopyEncoder([ResultColumn(1114, -1, 0, "t")], ["t"], options)
        with oracle.connection.cursor().copy(
            f"COPY (VALUES ('1970-01-01 00:00'::timestamp), (NULL)) TO STDOUT ({sql})"
        ) as copy:
            assert _copied(encoder, batch) == [bytes(chunk) for chunk in copy]


@pytest.mark.parametrize("options", [CopyOptions(), CopyOptions("csv")])
def test_lines_are_the_payloads_of_the_messages(options: CopyOptions):
    batch = pa.record_batch({"v": pa.array(VALUES), "n": pa.array(range(len(VALUES)), pa.int32())})
    columns = [ResultColumn(TEXT, -1, 0, "v"), ResultColumn(INT4, -1, 0, "n")]
    encoder = CopyEncoder(columns, ["v", "n"], options)
    assert b"".join(encoder.lines(batch)) == b"".join(_copied(encoder, batch))
