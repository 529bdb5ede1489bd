"""Arrow record batches in storage types to CopyData messages of COPY TO STDOUT, one per row."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from pgwire_gateway.wire_types.row_encoder import ResultColumn
from pgwire_gateway.wire_types.settings import EncodingSettings


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
        """Choose an encoder per column; format codes of the columns are ignored."""
        raise NotImplementedError

    @property
    def format_code(self) -> int:
        """Overall format for CopyOutResponse, also that of each column: 0 text and CSV, 1 binary."""
        raise NotImplementedError

    def header(self) -> bytes:
        """Return the messages before the first row; empty when there are none."""
        raise NotImplementedError

    def chunks(self, batch: pa.RecordBatch) -> Iterator[memoryview]:
        """Yield the rows of a batch in pieces of bounded size, whole messages each."""
        raise NotImplementedError

    def trailer(self) -> bytes:
        """Return the messages after the last row; empty when there are none."""
        raise NotImplementedError
