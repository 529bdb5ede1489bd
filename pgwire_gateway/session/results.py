"""Rows on their way out: from PostgreSQL as they come, from Spark through the columnar encoder."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Protocol

from catalog.connection.tuple_stores import TupleStore
from catalog.results import LocalResult, ResultColumn, Row
from pgwire_gateway.messages.row_data import FieldDescription, encode_data_run
from pgwire_gateway.read_ahead import ReadAhead
from pgwire_gateway.session.portals import format_codes
from pgwire_gateway.wire_types.client_values import recoded
from pgwire_gateway.wire_types.mixed_formats import with_binary_columns
from pgwire_gateway.wire_types.row_encoder import RowEncoder

RUN_ROWS = 500
"""Rows from PostgreSQL that are encoded into one run, at most."""

RUN_BYTES = 1 << 20
"""A run ends once its values are as long as this: rows may be long."""


def field_descriptions(
    columns: Sequence[ResultColumn], formats: Sequence[int]
) -> tuple[FieldDescription, ...]:
    """Describe result columns with the format codes of a portal."""
    codes = format_codes(formats, len(columns))
    return tuple(
        FieldDescription(
            column.name,
            column.table_oid,
            column.attnum,
            column.type_oid,
            column.type_size,
            column.typmod,
            code,
        )
        for column, code in zip(columns, codes, strict=True)
    )


QUERY_VERBS = frozenset({"SELECT", "FETCH"})
"""Beginnings of tags that count the rows of one Execute."""

RETURNING_VERBS = frozenset({"INSERT 0", "UPDATE", "DELETE", "MERGE"})
"""Beginnings of tags that do where rows are returned."""


class CatalogRows:
    """Rows PostgreSQL evaluated, in the one format it was asked for."""

    def __init__(
        self,
        rows: Iterable[Row],
        type_oids: Sequence[int],
        codes: Sequence[int],
        *,
        are_held: bool = False,
        encoding: str = "UTF8",
    ) -> None:
        """Take rows that are in the format of all ``codes``, or in text where these differ.

        They come through the connection, unless they `are_held` already. PostgreSQL's name of the
        client's encoding is told, which their text is in.
        """
        self._encoding = self._wanted = encoding
        self._rows: Iterator[Row] = iter(rows)
        self._type_oids = type_oids
        self._codes = codes
        self._mixed = len(set(codes)) > 1
        self._are_held = are_held
        self.exhausted = False

    def take(self, limit: int) -> Iterator[tuple[bytes | memoryview, int]]:
        """Yield runs of encoded rows; a limit fetches the rest, as the connection must be free."""
        if limit:
            self.hold()
        rows = islice(self._rows, limit) if limit else self._rows
        while True:
            run = islice(rows, RUN_ROWS)
            if self._mixed or self._wanted != self._encoding:
                data, count = encode_data_run(self._converted(_cut(run)))
            else:
                data, count = encode_data_run(run, RUN_BYTES)
            if not count:
                return
            yield data, count

    def _converted(self, run: list[Row]) -> list[Row]:
        """Return rows in the formats, and in the encoding, that the client asks for."""
        if self._mixed:
            run = with_binary_columns(run, self._type_oids, self._codes, self._encoding)
        if self._wanted != self._encoding:
            run = recoded(run, self._type_oids, self._codes, self._encoding, self._wanted)
        return run

    def encode_in(self, client_encoding: str) -> None:
        """Send what is left to a client that has another encoding now."""
        self._wanted = client_encoding

    def hold(self) -> None:
        """Fetch all rows, so that the connection is free, and what they come from may go."""
        if not self._are_held:
            self._rows, self._are_held = TupleStore(self._rows), True

    def close(self) -> None:
        """Skip the rows not taken, so that the connection can be used again."""
        if isinstance(self._rows, TupleStore):
            self._rows.close()
        for _ in self._rows:
            pass


def _cut(rows: Iterable[Row]) -> list[Row]:
    """Take rows until they are long enough for a run."""
    run, size = [], 0
    for row in rows:
        run.append(row)
        size += sum(len(value) for value in row if value is not None)
        if size >= RUN_BYTES:
            break
    return run


class LocalRows(CatalogRows):
    """Rows of a statement PostgreSQL is evaluating; its command tag is known after the last one."""

    def __init__(
        self, result: LocalResult, result_formats: Sequence[int] = (), encoding: str = "UTF8"
    ) -> None:
        columns = result.columns or ()
        codes = format_codes(result_formats, len(columns))
        types = [column.type_oid for column in columns]
        super().__init__(result.rows, types, codes, encoding=encoding)
        self._result = result

    def tag(self, taken: int) -> str:
        """Return PostgreSQL's tag, with the rows of this Execute where it counts them."""
        tag = self._result.command_tag or ""
        verb, _, count = tag.rpartition(" ")
        counted = RETURNING_VERBS if self._result.columns else frozenset()
        return f"{verb} {taken}" if verb in QUERY_VERBS | counted and count.isdigit() else tag


class BatchSource(Protocol):
    """Record batches that are computed while they are taken."""

    def __iter__(self) -> Iterator[Any]:
        """Yield record batches."""

    def close(self) -> None:
        """Release what computes them."""


class SparkRows:
    """Rows from Spark, encoded batch by batch."""

    def __init__(self, batches: BatchSource, encoder: RowEncoder) -> None:
        self._batches = batches
        self._iterator = iter(batches)
        self._encoder = encoder
        self._rest: Any = None
        self._ahead: ReadAhead[tuple[memoryview, int]] | None = None
        self.exhausted = False

    def take(self, limit: int) -> Iterator[tuple[bytes | memoryview, int]]:
        """Yield runs of encoded rows, at most ``limit`` rows; 0 takes all."""
        if not limit:
            yield from self._all()
            return
        taken = 0
        while taken < limit:
            batch = self._next()
            if batch is None:
                self._end()
                return
            if batch.num_rows > limit - taken:
                self._rest = batch.slice(limit - taken)
                batch = batch.slice(0, limit - taken)
            taken += batch.num_rows
            yield from self._encoded(batch)

    def encode_in(self, client_encoding: str) -> None:
        """Send what is left to a client that has another encoding now."""
        self._encoder.encode_in(client_encoding)

    def close(self) -> None:
        """Stop Spark when rows are left."""
        if self._ahead is not None:
            self._ahead.close()
        self._batches.close()

    def _all(self) -> Iterator[tuple[memoryview, int]]:
        first = self._next()
        if first is not None:
            yield from self._encoded(first)
        second = next(self._iterator, None)
        if second is not None:
            # Encoding goes on while the client is being sent what is encoded.
            batches = chain([second], self._iterator)
            self._ahead = ReadAhead(
                (run for batch in batches for run in self._encoded(batch)), "row encoder"
            )
            yield from self._ahead
        self._end()

    def _next(self) -> Any:
        batch = self._rest if self._rest is not None else next(self._iterator, None)
        self._rest = None
        return batch

    def _encoded(self, batch: Any) -> Iterator[tuple[memoryview, int]]:
        rows = batch.num_rows
        for data in self._encoder.chunks(batch):
            yield data, rows
            rows = 0

    def _end(self) -> None:
        self.exhausted = True
        self._batches.close()
