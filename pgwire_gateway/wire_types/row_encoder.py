"""Arrow record batches in storage types to runs of DataRow messages, column by column."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import pyarrow as pa

from catalog.pg.text_codecs import UNCONVERTED
from pgwire_gateway.messages.row_data import encode_data_rows
from pgwire_gateway.wire_types import decimals, decimals_binary
from pgwire_gateway.wire_types.arrays import Encode
from pgwire_gateway.wire_types.buffers import bytes_of, too_long
from pgwire_gateway.wire_types.client_encodings import UntranslatableError, converted
from pgwire_gateway.wire_types.registry import declared_scale, encoder
from pgwire_gateway.wire_types.row_framing import field_pieces, messages
from pgwire_gateway.wire_types.settings import EncodingSettings
from pgwire_gateway.wire_types.storage import conform
from pgwire_gateway.wire_types.type_oids import NUMERIC

__all__ = ["ColumnEncoder", "EncodingSettings", "ResultColumn", "RowEncoder", "encoded", "slices"]

_T = TypeVar("_T")

_SLICE_ROWS = 65_536
_SLICE_BYTES = 32 << 20
"""Rows are encoded in slices of about this size, which bounds memory."""

_SMALL_BYTES = 1 << 16
"""A single row of more is laid together by kernels, too, which know how long one may be."""


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """One column of a result: what PostgreSQL announced and where its values are."""

    type_oid: int
    """OID of the type in RowDescription."""
    typmod: int
    """Type modifier, -1 when there is none."""
    format_code: int
    """0 for text, 1 for binary."""
    column: str
    """Name of the column in the record batches."""
    scale: int | str | None = None
    """Decimals of a numeric held as DECIMAL: fixed, or name of the INT column that holds them."""


class ColumnEncoder:
    """Encodes the values of one result column."""

    def __init__(self, column: ResultColumn, settings: EncodingSettings) -> None:
        """Choose the encoder; raises 0A000 when the type has none for the format."""
        self._column = column
        self._settings = settings
        self._scale = column.scale
        if column.scale is None and column.type_oid == NUMERIC:
            self._scale = declared_scale(column.typmod)
        self._encode: Encode = encoder(column.type_oid, column.format_code)
        # What is sent in binary its encoder converts, as far as it is text.
        self._converts = column.format_code == 0 and settings.client_encoding not in UNCONVERTED

    def encode(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the values of a batch as Binary, String or FixedSizeBinary array."""
        try:
            encoded = self._encoded(batch)
        except pa.ArrowCapacityError as error:
            raise too_long() from error
        return converted(encoded, self._settings.client_encoding) if self._converts else encoded

    def _encoded(self, batch: pa.RecordBatch) -> pa.Array:
        column = self._column
        values = conform(batch.column(column.column), column.type_oid, column.typmod)
        if self._scale is None:
            return self._encode(values, self._settings)
        scale = batch.column(self._scale) if isinstance(self._scale, str) else self._scale
        show = decimals_binary.binary_display if column.format_code else decimals.display
        return show(values, scale)


class RowEncoder:
    """Encodes the record batches of one result."""

    def __init__(
        self, columns: Sequence[ResultColumn], settings: EncodingSettings | None = None
    ) -> None:
        """Choose an encoder per column.

        Raises:
            GatewayError: 0A000 when binary format is asked of a type that has none here.
        """
        self._described = columns
        self._settings = settings or EncodingSettings()
        self._columns = [ColumnEncoder(column, self._settings) for column in columns]

    def encode_in(self, client_encoding: str) -> None:
        """Encode what comes from now on for a client that has another encoding."""
        self._settings = replace(self._settings, client_encoding=client_encoding)
        self._columns = [ColumnEncoder(column, self._settings) for column in self._described]

    def encode(self, batch: pa.RecordBatch) -> memoryview:
        """Return the DataRow messages of all rows of a batch."""
        chunks = list(self.chunks(batch))
        return chunks[0] if len(chunks) == 1 else memoryview(b"".join(chunks))

    def chunks(self, batch: pa.RecordBatch) -> Iterator[memoryview]:
        """Yield the DataRow messages of a batch in pieces of bounded size, whole messages each."""
        for part in slices(batch):
            for rows, columns in encoded(part, self._values):
                if rows == 1 and sum(column.nbytes for column in columns) < _SMALL_BYTES:
                    # What lays rows together costs as much as many of them.
                    row = [bytes_of(column[0]) for column in columns]
                    yield memoryview(encode_data_rows([row]))
                else:
                    yield from messages(b"D", field_pieces(columns), rows)

    def _values(self, batch: pa.RecordBatch) -> list[pa.Array]:
        return [column.encode(batch) for column in self._columns]


def encoded(
    batch: pa.RecordBatch, encode: Callable[[pa.RecordBatch], _T]
) -> Iterator[tuple[int, _T]]:
    """Yield what a function makes of the rows of a batch, and their number; mostly all at once.

    Raises:
        UntranslatableError: Of the row after those that were yielded.
    """
    try:
        values = encode(batch)
    except UntranslatableError:
        if batch.num_rows <= 1:
            raise
        half = batch.num_rows // 2
        yield from encoded(batch.slice(0, half), encode)
        yield from encoded(batch.slice(half), encode)
    else:
        yield batch.num_rows, values


def slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Cut a batch into pieces small enough to be encoded at once."""
    if batch.num_rows <= 1 or (batch.num_rows <= _SLICE_ROWS and batch.nbytes <= _SLICE_BYTES):
        if batch.num_rows:
            yield batch
        return
    half = batch.num_rows // 2
    yield from slices(batch.slice(0, half))
    yield from slices(batch.slice(half))
