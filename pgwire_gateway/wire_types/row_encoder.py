"""Arrow record batches in storage types to runs of DataRow messages, column by column."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from pgwire_gateway.wire_types.settings import EncodingSettings

__all__ = ["EncodingSettings", "ResultColumn", "RowEncoder"]


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


class RowEncoder:
    """Encodes the record batches of one result."""

    def __init__(
        self, columns: Sequence[ResultColumn], settings: EncodingSettings | None = None
    ) -> None:
        """Choose an encoder per column.

        Raises:
            GatewayError: 0A000 when binary format is asked of a type that has none here.
        """
        raise NotImplementedError

    def encode(self, batch: pa.RecordBatch) -> memoryview:
        """Return the DataRow messages of all rows of a batch."""
        raise NotImplementedError

    def chunks(self, batch: pa.RecordBatch) -> Iterator[memoryview]:
        """Yield the DataRow messages of a batch in pieces of bounded size, whole messages each."""
        raise NotImplementedError
