"""Arrow record batches in storage types to CopyData messages of COPY TO STDOUT, one per row."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from catalog.pg.text_codecs import ascii_equivalents
from pgwire_gateway.wire_types.buffers import as_binary, as_text
from pgwire_gateway.wire_types.client_encodings import converted
from pgwire_gateway.wire_types.copy_text import csv_field, text_field
from pgwire_gateway.wire_types.row_encoder import ColumnEncoder, ResultColumn, encoded, slices
from pgwire_gateway.wire_types.row_framing import Piece, field_pieces, messages, payloads
from pgwire_gateway.wire_types.settings import EncodingSettings

_COPY_DATA: Final = b"d"
_SIGNATURE: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
"""Signature, flags and length of the header extension."""
_END: Final = b"\xff\xff"
"""Field count -1."""


@dataclass(frozen=True, slots=True)
class CopyOptions:
    """Options of a COPY TO statement; None is PostgreSQL's default for the format."""

    format: str = "text"
    """text, csv or binary."""
    delimiter: str | None = None
    null: str | None = None
    header: bool = False
    quote: str | None = None
    escape: str | None = None
    force_quote: frozenset[str] | bool = False
    """Names of the columns always quoted in CSV; True for all of them."""
    encoding: str | None = None
    """PostgreSQL's name of the encoding of text and CSV, if it is not that of the client."""


class CopyEncoder:
    """Encodes the record batches of one COPY TO STDOUT.

    Everything returned is finished CopyData messages (``d``, length, one row), because clients
    rely on PostgreSQL sending one row per message.
    """

    def __init__(
        self,
        columns: Sequence[ResultColumn],
        names: Sequence[str],
        options: CopyOptions,
        settings: EncodingSettings | None = None,
    ) -> None:
        """Choose an encoder per column; format codes of the columns are ignored.

        Raises:
            GatewayError: 0A000 when a type has no binary format here.
        """
        settings = settings or EncodingSettings()
        self._options = options
        self._encoding = options.encoding or settings.client_encoding
        self._equivalents = ascii_equivalents(self._encoding)
        if options.format != "binary":
            # What is written around values is converted with them.
            settings = replace(settings, client_encoding="UTF8")
        self._names = tuple(names)
        self._columns = [
            ColumnEncoder(replace(column, format_code=self.format_code), settings)
            for column in columns
        ]
        self._signature = _SIGNATURE
        csv = options.format == "csv"
        self._delimiter = options.delimiter or ("," if csv else "\t")
        self._null = options.null if options.null is not None else ("" if csv else "\\N")
        self._quote = options.quote or '"'
        self._escape = options.escape or self._quote

    @property
    def format_code(self) -> int:
        """Format of CopyOutResponse and of each column in it: 0 for text and CSV, 1 for binary."""
        return int(self._options.format == "binary")

    def header(self) -> bytes:
        """Return the message with the column names; empty when there is none."""
        if self.format_code or not self._options.header:
            return b""
        names = [pa.array([name], pa.string()) for name in self._names]
        return b"".join(messages(_COPY_DATA, self._lines(names, heading=True), 1))

    def chunks(self, batch: pa.RecordBatch) -> Iterator[memoryview]:
        """Yield the rows of a batch in pieces of bounded size, whole messages each."""
        for part in slices(batch):
            if self.format_code:
                for rows, columns in encoded(part, self._values):
                    yield from self._binary(columns, rows)
            else:
                for rows, pieces in encoded(part, self._text):
                    yield from messages(_COPY_DATA, pieces, rows)

    def _values(self, batch: pa.RecordBatch) -> list[pa.Array]:
        return [column.encode(batch) for column in self._columns]

    def _text(self, batch: pa.RecordBatch) -> list[Piece]:
        return self._lines(self._values(batch))

    def _binary(self, columns: list[pa.Array], rows: int) -> Iterator[memoryview]:
        if self._signature:
            # PostgreSQL sends it in the message of the first row, and clients count on that.
            first = field_pieces([column.slice(0, 1) for column in columns])
            yield from messages(_COPY_DATA, [self._signature, *first], 1)
            columns, rows = [column.slice(1) for column in columns], rows - 1
            self._signature = b""
        yield from messages(_COPY_DATA, field_pieces(columns), rows)

    def lines(self, batch: pa.RecordBatch) -> Iterator[memoryview]:
        """Yield the rows of a batch as lines of text, as a file holds them."""
        for part in slices(batch):
            yield payloads(self._text(part), part.num_rows)

    def trailer(self) -> bytes:
        """Return the messages after the last row; empty when there are none."""
        if not self.format_code:
            return b""
        payload = self._signature + _END
        return _COPY_DATA + (len(payload) + 4).to_bytes(4, "big") + payload

    def _lines(self, columns: Sequence[pa.Array], *, heading: bool = False) -> list[Piece]:
        """Return a line of text per row."""
        pieces: list[Piece] = []
        for name, column in zip(self._names, columns, strict=True):
            field = self._field(column, name, heading=heading)
            pieces += [self._delimiter.encode(), converted(field, self._encoding)]
        return [*pieces[1:], b"\n"]

    def _field(self, values: pa.Array, name: str, *, heading: bool) -> pa.Array:
        # Values are converted before it is looked at what has to be escaped.
        for letter, equivalent in self._equivalents.items():
            values = pc.replace_substring(as_text(as_binary(values)), letter, equivalent)
        if self._options.format != "csv":
            return text_field(values, self._delimiter, self._null)
        forced = self._options.force_quote
        return csv_field(
            values,
            self._delimiter,
            self._null,
            self._quote,
            self._escape,
            forced=not heading and (forced if isinstance(forced, bool) else name in forced),
            alone=len(self._names) == 1,
        )
