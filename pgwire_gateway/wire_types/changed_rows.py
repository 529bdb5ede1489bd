"""Rows an UPDATE, DELETE or MERGE yields, as Spark computed them, in the forms writers need."""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from catalog.errors import GatewayError
from catalog.journal.layout import IDENTITY, SUBSEQUENT, VERSION
from catalog.model import JournalTable
from catalog.pg import sqlstate as codes
from pgwire_gateway.wire_types.catalog_rows import input_columns, storage_schema
from pgwire_gateway.wire_types.versions import VERSION_TYPE
from rewrite.command import Command
from rewrite.context import CheckConstraint
from rewrite.results import ACTION, MOVED, RowChange

INT8_OID = 20

TextRow = list[str | None]
"""PostgreSQL's text of every live column in attribute-number order, then the row identity."""


class ReturnedBatches(Protocol):
    """What keeps the columns of RETURNING until the client asks for them."""

    def add(self, batch: pa.RecordBatch) -> None:
        """Take a batch."""

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield all batches, in the order in which they came."""

    def close(self) -> None:
        """Forget what has not been read."""


class ChangedRows:
    """The new row versions of one statement, gathered batch by batch."""

    def __init__(
        self,
        table: JournalTable,
        change: RowChange,
        checks: Sequence[CheckConstraint],
        returning: ReturnedBatches | None = None,
        shown: Callable[[], Collection[int] | None] = frozenset,
    ) -> None:
        """Gather nothing yet.

        Args:
            table: The table.
            change: What yields the rows.
            checks: Constraints that they have to satisfy.
            returning: Keeps apart what RETURNING needs of the rows, if it is wanted.
            shown: Tells which columns of a row that violates a constraint an error may show, by
                their attribute numbers; None for the row as a whole.
        """
        self._table = table
        self._shown = shown
        self._change = change
        self._checks = checks
        self._batches: list[pa.RecordBatch] = []
        self.returning = returning
        """The columns of RETURNING."""
        self.rows = 0
        """How many rows the statement reports."""
        self._moved = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Take a batch of the compiled query.

        Raises:
            GatewayError: 53100 or 58030 when storage fails, where rows of RETURNING are many.
        """
        told = batch
        if MOVED in batch.schema.names:
            # What comes is told by what goes.
            comes = pc.equal(batch.column(ACTION), int(Command.INSERT))
            told = batch.filter(pc.invert(pc.and_(batch.column(MOVED), comes)))
        self.rows += told.num_rows
        self._moved += batch.num_rows - told.num_rows
        names = [name for column in self._change.returning for name in _names(column)]
        if names and self.returning is not None:
            # A copy: what is selected of a batch keeps the whole batch in memory.
            kept = told.select(names)
            self.returning.add(pa.ipc.read_record_batch(kept.serialize(), kept.schema))
        self._batches.append(batch)

    def take(self) -> list[pa.RecordBatch]:
        """Hand over the batches gathered so far; what RETURNING needs stays."""
        batches, self._batches = self._batches, []
        return batches

    @property
    def versions(self) -> int:
        """How many row versions these are: one that moves comes, too, besides being reported."""
        return self.rows + self._moved

    @property
    def gathered(self) -> Sequence[pa.RecordBatch]:
        """The batches that nobody has taken yet."""
        return self._batches

    def close(self) -> None:
        """Forget what RETURNING needs, as the statement has failed, or is run another way."""
        if self.returning is not None:
            self.returning.close()

    def parted(
        self, batches: Sequence[pa.RecordBatch]
    ) -> tuple[list[pa.RecordBatch], list[pa.RecordBatch]]:
        """Part rows that are written from those that are deleted."""
        if self._change.kind != "merge":
            return ([], list(batches)) if self._change.kind == "delete" else (list(batches), [])
        written, deleted = [], []
        for batch in batches:
            gone = _deleted(batch)
            deleted.append(batch.filter(gone))
            written.append(batch.filter(pc.invert(gone)))
        return written, deleted

    def new_rows(self, batches: Sequence[pa.RecordBatch]) -> list[TextRow]:
        """Return the new version of every row (of a delete: the old one)."""
        return self._texts(batches, [f"n{column.attnum}" for column in self._table.columns])

    def old_keys(self, batches: Sequence[pa.RecordBatch]) -> list[TextRow]:
        """Return the old version of every row as far as its key; other columns are NULL."""
        key = set(self._table.key)
        names = [
            f"k{column.attnum}" if column.attnum in key else None for column in self._table.columns
        ]
        return self._texts(batches, names)

    def storage(
        self, batch: pa.RecordBatch, version: int, *, old_keys: bool = False
    ) -> pa.RecordBatch:
        """Return a batch as row versions in storage layout; deletes and old keys as tombstones."""
        schema = storage_schema(self._table)
        size = batch.num_rows
        stamp = pa.array([version], pa.int64()).cast(VERSION_TYPE)
        tombstones = pa.repeat(pa.scalar(old_keys or self._change.kind == "delete"), size)
        if self._change.kind == "merge":
            tombstones = _deleted(batch)
        arrays = []
        for field in schema:
            if field.name == VERSION:
                values = pa.repeat(stamp[0], size).cast(field.type)
            elif field.name == SUBSEQUENT:
                values = pc.if_else(tombstones, stamp[0], pa.scalar(None, stamp.type))
            elif field.name == IDENTITY:
                values = batch.column(IDENTITY)
            else:
                name = ("k" if old_keys else "n") + field.name[1:]
                found = name in batch.schema.names
                values = batch.column(name) if found else pa.nulls(size, field.type)
            arrays.append(values.cast(field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def require_valid(self, batch: pa.RecordBatch) -> None:
        """Refuse rows that violate NOT NULL or CHECK, as PostgreSQL does (23502, 23514).

        Those that are deleted may be as they are.
        """
        for written in self.parted([batch])[0]:
            self._require_valid(written)

    def _require_valid(self, batch: pa.RecordBatch) -> None:
        for column in self._table.columns:
            name = f"n{column.attnum}"
            if column.not_null and batch.column(name).null_count:
                row = pc.index(pc.is_null(batch.column(name)), value=True).as_py()
                raise GatewayError(
                    f'null value in column "{column.name}" of relation "{self._table.name}" '
                    "violates not-null constraint",
                    sqlstate=codes.NOT_NULL_VIOLATION,
                    detail=self._failing_row(batch, row),
                    fields=self._fields(c=column.name),
                )
        for number, check in enumerate(self._checks, start=1):
            row = pc.index(batch.column(f"check_{number}"), value=False).as_py()
            if row >= 0:
                raise GatewayError(
                    f'new row for relation "{self._table.name}" violates check constraint '
                    f'"{check.name}"',
                    sqlstate=codes.CHECK_VIOLATION,
                    detail=self._failing_row(batch, row),
                    fields=self._fields(n=check.name),
                )

    def _failing_row(self, batch: pa.RecordBatch, row: int) -> str | None:
        texts = self.new_rows([batch.slice(row, 1)])[0][: len(self._table.columns)]
        values = ["null" if text is None else text for text in texts]
        shown = self._shown()
        if shown is None:
            return f"Failing row contains ({', '.join(values)})."
        told = [
            (column.name, value)
            for column, value in zip(self._table.columns, values, strict=True)
            if column.attnum in shown
        ]
        if not told:
            return None
        listed, held = (", ".join(part) for part in zip(*told, strict=True))
        return f"Failing row contains ({listed}) = ({held})."

    def _fields(self, **fields: str) -> dict[str, str]:
        return {"s": self._table.schema, "t": self._table.name} | fields

    def _texts(
        self, batches: Sequence[pa.RecordBatch], names: Sequence[str | None]
    ) -> list[TextRow]:
        rows: list[TextRow] = []
        types = [column.type_oid for column in self._table.columns]
        for batch in batches:
            wanted = [(name, oid) for name, oid in zip(names, types, strict=True) if name]
            texts: Iterator[list[str | None]] = iter(input_columns(batch, wanted))
            nulls: list[str | None] = [None] * batch.num_rows
            columns = [next(texts) if name else nulls for name in names]
            identity = nulls
            if not self._table.key:
                identity = input_columns(batch, [(IDENTITY, INT8_OID)])[0]
            rows.extend(list(row) for row in zip(*columns, identity, strict=True))
        return rows


def _deleted(batch: pa.RecordBatch) -> pa.Array:
    """Tell of each row of a MERGE whether it is deleted."""
    return pc.equal(batch.column(ACTION), int(Command.DELETE))


def _names(column: object) -> list[str]:
    name = getattr(column, "column", "")
    scale = getattr(column, "scale", None)
    return [name, scale] if isinstance(scale, str) else [name]
