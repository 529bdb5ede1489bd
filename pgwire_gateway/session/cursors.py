"""Cursors that SQL declares over what Spark reads: portals from which FETCH takes rows, forward.

Follows "DECLARE", "FETCH" and "MOVE" of PostgreSQL's reference. A cursor sees what its query saw
when it was declared. Its rows are computed while they are taken; what is left of a cursor WITH HOLD
is kept when its transaction is committed, in memory or in a file without a name.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
from typing_extensions import override

from catalog.errors import GatewayError
from catalog.pg import sqlstate as codes
from pgwire_gateway.messages.row_data import FieldDescription
from pgwire_gateway.session.portals import NoRows, Portal, RowStream
from pgwire_gateway.session.results import field_descriptions
from pgwire_gateway.spark.batch_stores import BatchStore
from rewrite.errors import UnsupportedError
from rewrite.results import OutputColumn

_BINARY: Final = (1,)


@dataclass
class Cursor(Portal):
    """A portal from which FETCH takes rows; Execute does not."""

    binary: bool = False
    """Whether values are sent in binary where a query string fetches them."""
    hold: bool = False
    """Whether it outlasts its transaction."""
    no_scroll: bool = False
    """Whether it was declared to go forward alone."""
    rows: "CursorRows" = field(default_factory=lambda: CursorRows(iter(())))
    consists_of: Sequence[OutputColumn] = ()
    """Where the values of its columns are in `rows`."""
    fetching: RowStream = field(default_factory=NoRows)
    """What the latest FETCH takes from them, perhaps ahead of the client."""

    @property
    @override
    def holds_files(self) -> bool:
        return not (self.rows.is_kept or self.rows.is_broken or self.rows.is_at_end)

    def described(self, formats: Sequence[int]) -> tuple[FieldDescription, ...]:
        """Describe its rows in these formats."""
        plan = self.statement.plan
        columns = plan.analysis.columns if plan and plan.analysis else None
        return field_descriptions(columns or (), formats)

    @property
    def formats(self) -> Sequence[int]:
        """The format codes of its rows where none are asked for."""
        return _BINARY if self.binary else ()

    @property
    @override
    def position(self) -> int:
        return self.rows.position

    @property
    @override
    def is_before_first(self) -> bool:
        return self.rows.is_before_first

    def require_usable(self) -> None:
        """Refuse a cursor of which an earlier FETCH has failed (55000)."""
        if self.rows.is_broken:
            raise GatewayError(
                f'portal "{self.name}" cannot be run',
                sqlstate=codes.OBJECT_NOT_IN_PREREQUISITE_STATE,
            )

    @override
    def backwards(self) -> GatewayError:
        self.fail()
        if self.no_scroll:
            return super().backwards()
        return UnsupportedError(
            "going back in a cursor over journaled tables is not supported",
            hint="Declare another one, and fetch its rows forward.",
        )

    def keep(self) -> None:
        """Take all rows that are left, as the transaction ends.

        Raises:
            GatewayError: What computing them raises; 53100 when the disk is full, 58030 for other
                failures of storage.
        """
        self.rows.keep()
        self.running = None

    @property
    def is_pending(self) -> bool:
        """Whether it is to outlast a transaction that has not been committed yet."""
        return self.hold and self.number > 0 and not self.rows.is_broken

    def outlast(self) -> None:
        """Stay, as the transaction was committed that declared it, if its rows were kept."""
        if self.rows.is_kept:
            self.number = 0

    def fail(self) -> None:
        """Note that rows that were taken have not all been fetched: no others can be."""
        self.close()
        self.rows.is_broken = True

    @override
    def encode_in(self, before: str, after: str) -> None:
        self.fetching.encode_in(after)

    @override
    def close(self) -> None:
        # It may be taking rows in a thread of its own.
        self.fetching.close()
        self.rows.close()


class CursorRows:
    """Rows of a cursor, of which each is taken once."""

    def __init__(
        self, batches: Iterator[pa.RecordBatch], close: Callable[[], None] | None = None
    ) -> None:
        """Take them from batches, which `close` ends."""
        self._batches = batches
        self._release = close or _nothing
        self.is_broken = False
        """Whether rows are left that cannot be taken any more."""
        self._rest: pa.RecordBatch | None = None
        self._kept: BatchStore | None = None
        self.is_kept = False
        """Whether all that are left have been computed."""
        self.position = 0
        """How many rows have been taken; one more where it was asked for more than there are."""
        self.is_at_start = True
        self.is_at_end = False

    @property
    def is_before_first(self) -> bool:
        """Whether nothing has been asked for yet."""
        return self.is_at_start and not self.is_at_end

    @property
    def is_on_row(self) -> bool:
        """Whether the last row that was asked for is one."""
        return not self.is_at_start and not self.is_at_end

    def take(self, count: int | None) -> Iterator[pa.RecordBatch]:
        """Yield the next rows, as many as there are.

        Raises:
            GatewayError: What computing them raises.
        """
        left = count
        while left is None or left > 0:
            batch = self._next()
            if batch is None:
                return
            if left is not None and batch.num_rows > left:
                self._rest, batch = batch.slice(left), batch.slice(0, left)
            if batch.num_rows:
                self.is_at_start = False
                self.position += batch.num_rows
                left = None if left is None else left - batch.num_rows
                yield batch

    def _next(self) -> pa.RecordBatch | None:
        batch, self._rest = self._rest, None
        if batch is not None or self.is_at_end:
            return batch
        try:
            batch = next(self._batches, None)
        except BaseException:
            self.close()
            raise
        if batch is None:
            self.is_at_end = True
            self.position += 1
            self.close()
        return batch

    def keep(self) -> None:
        """Compute all rows that are left, and hold them.

        Raises:
            GatewayError: As of `Cursor.keep`.
        """
        kept = BatchStore()
        try:
            if self._rest is not None:
                kept.add(self._rest)
                self._rest = None
            if not self.is_at_end:
                for batch in self._batches:
                    kept.add(batch)
        except BaseException:
            kept.close()
            raise
        self._release()
        self._release = _nothing
        self._kept, self._batches = kept, iter(kept)
        self.is_kept = True

    def close(self) -> None:
        """Release what computes the rows, or holds them."""
        self.is_broken |= not self.is_at_end
        self._release()
        self._batches = iter(())
        if self._kept is not None:
            self._kept.close()


def _nothing() -> None:
    pass
