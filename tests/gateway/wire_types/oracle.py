"""Asks a real PostgreSQL for values, and reads them back from encoded messages."""

from collections.abc import Sequence
from pathlib import Path

import psycopg
import pyarrow as pa
from psycopg import ClientCursor, pq

from pgwire_gateway.wire_types.input_text import text_values
from pgwire_gateway.wire_types.row_encoder import EncodingSettings, ResultColumn, RowEncoder
from tests.support.programs import program

Rows = list[list[bytes | None]]


class Oracle:
    """One connection of its own to a PostgreSQL server."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self.connection = connection
        share = Path(program("postgres")).parent.parent / "share" / "postgresql"
        self.time_zone_directory = str(share / "timezone")

    def settings(self, **styles: object) -> EncodingSettings:
        """Return an encoder's settings with the server's own time zones."""
        return EncodingSettings(**styles, time_zone_directory=self.time_zone_directory)

    def apply(self, settings: EncodingSettings) -> None:
        """Set the session to the styles of the encoder."""
        for name, value in (
            ("TimeZone", settings.time_zone),
            ("DateStyle", settings.date_style),
            ("IntervalStyle", settings.interval_style),
            ("bytea_output", settings.bytea_output),
            ("extra_float_digits", str(settings.extra_float_digits)),
        ):
            self.connection.execute("SELECT set_config(%s, %s, false)", (name, value))

    def fetch(self, sql: str, parameters: Sequence[str | None], format_code: int = 0) -> Rows:
        """Return the raw fields of a result."""
        encoded = [None if value is None else value.encode() for value in parameters]
        result = self.connection.pgconn.exec_params(
            sql.encode(), encoded, result_format=pq.Format(format_code)
        )
        assert result.status == pq.ExecStatus.TUPLES_OK, result.error_message.decode()
        return [
            [result.get_value(row, column) for column in range(result.nfields)]
            for row in range(result.ntuples)
        ]

    def values(self, kind: str, texts: Sequence[str | None], format_code: int = 0) -> Rows:
        """Return values of a type, given as input text, as the session shows them."""
        rows = ", ".join(f"({place}, ${place + 1}::{kind})" for place in range(len(texts)))
        return self.fetch(
            f"SELECT v FROM (VALUES {rows}) AS t (n, v) ORDER BY n", texts, format_code
        )

    def inlined(self, sql: str, parameters: Sequence[str | None]) -> str:
        """Return a statement with literals in place of its parameters, for COPY."""
        for place in range(len(parameters), 0, -1):
            literal = ClientCursor(self.connection).mogrify("%s", [parameters[place - 1]])
            sql = sql.replace(f"${place}", literal)
        return sql

    def type_of(self, kind: str) -> tuple[int, int]:
        """Return OID and type modifier of a type."""
        result = self.connection.pgconn.exec_params(f"SELECT NULL::{kind}".encode(), None)
        return result.ftype(0), result.fmod(0)

    def stored(self, kind: str, texts: Sequence[str | None]) -> pa.Array:
        """Return values of a type in its storage type."""
        self.apply(EncodingSettings())
        shown = [row[0] for row in self.values(kind, texts)]
        decoded = [None if text is None else text.decode() for text in shown]
        return text_values(decoded, *self.type_of(kind))


def data_rows(run: bytes | memoryview) -> Rows:
    """Split a run of DataRow messages into fields."""
    data, rows = bytes(run), []
    while data:
        assert data[:1] == b"D"
        end = 1 + int.from_bytes(data[1:5], "big")
        rows.append(_fields(data[5:end]))
        data = data[end:]
    return rows


def _fields(payload: bytes) -> list[bytes | None]:
    count, payload = int.from_bytes(payload[:2], "big"), payload[2:]
    fields: list[bytes | None] = []
    for _ in range(count):
        length, payload = int.from_bytes(payload[:4], "big", signed=True), payload[4:]
        fields.append(None if length < 0 else payload[:length])
        payload = payload[max(length, 0) :]
    assert payload == b""
    return fields


def encoded(
    values: pa.Array,
    type_oid: int,
    typmod: int = -1,
    format_code: int = 0,
    settings: EncodingSettings | None = None,
) -> list[bytes | None]:
    """Return the fields of a one-column result."""
    encoder = RowEncoder([ResultColumn(type_oid, typmod, format_code, "o1")], settings)
    rows = data_rows(encoder.encode(pa.record_batch({"o1": values})))
    return [field for (field,) in rows]
