"""Results as Arrow record batches."""

from collections.abc import Callable, Iterator
from typing import Self

import pyarrow as pa


class Batches:
    """Iterator over the record batches of a result; closing it early cancels the work."""

    def __init__(
        self,
        schema: pa.Schema,
        source: Iterator[pa.RecordBatch],
        on_close: Callable[[], None] | None = None,
    ) -> None:
        self.schema = schema
        self._source = source
        self._on_close = on_close

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        try:
            return next(self._source)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release everything; cancels what still runs."""
        on_close, self._on_close = self._on_close, None
        if on_close is not None:
            on_close()
        self._source = iter(())

    def read_all(self) -> pa.Table:
        """Return all rows in memory."""
        return pa.Table.from_batches(list(self), schema=self.schema)
