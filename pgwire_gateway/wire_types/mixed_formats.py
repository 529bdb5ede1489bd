"""Rows PostgreSQL gave as text, of which a client wants some columns in binary.

libpq asks PostgreSQL for one format for all columns of a result; clients may ask for one each.
"""

from collections.abc import Sequence

import pyarrow as pa

from catalog.pg.text_codecs import UTF8
from pgwire_gateway.wire_types.buffers import as_binary
from pgwire_gateway.wire_types.client_encodings import require_convertible
from pgwire_gateway.wire_types.input_text import text_values
from pgwire_gateway.wire_types.row_encoder import ColumnEncoder, ResultColumn
from pgwire_gateway.wire_types.settings import EncodingSettings

BINARY = 1

Row = list[bytes | None]


def with_binary_columns(
    rows: Sequence[Row],
    type_oids: Sequence[int],
    codes: Sequence[int],
    client_encoding: str = "UTF8",
) -> list[Row]:
    """Return rows of text with the columns of format code 1 in PostgreSQL's binary format.

    Text is in the client's encoding, and stays so.

    Raises:
        GatewayError: 0A000 for a type that has no binary format here, or an encoding that text
            cannot be read in.
    """
    columns: list[Sequence[bytes | None]] = [list(column) for column in zip(*rows, strict=True)]
    for number, (type_oid, code) in enumerate(zip(type_oids, codes, strict=True)):
        if code == BINARY and rows:
            columns[number] = _binary(columns[number], type_oid, client_encoding)
    return [list(row) for row in zip(*columns, strict=True)]


def _binary(
    texts: Sequence[bytes | None], type_oid: int, client_encoding: str
) -> list[bytes | None]:
    values = text_values(
        [None if text is None else _decoded(text, client_encoding) for text in texts], type_oid
    )
    settings = EncodingSettings(client_encoding=client_encoding)
    encoder = ColumnEncoder(ResultColumn(type_oid, -1, BINARY, "v"), settings)
    batch = pa.RecordBatch.from_arrays([values], names=["v"])
    encoded: list[bytes | None] = as_binary(encoder.encode(batch)).to_pylist()
    return encoded


def _decoded(text: bytes, client_encoding: str) -> str:
    # ASCII is the same in all of them, also in those that are not converted.
    return text.decode(UTF8 if text.isascii() else require_convertible(client_encoding))
