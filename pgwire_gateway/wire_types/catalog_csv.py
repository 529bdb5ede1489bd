"""CSV of transfer forms, as the catalog streams it, to record batches in storage types."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa
from pyarrow import csv

from catalog.errors import GatewayError
from catalog.journal.layout import HIDDEN_COLUMNS, column_name
from catalog.model import Column
from catalog.pg import sqlstate as codes
from pgwire_gateway.wire_types.transfer_forms import from_transfer, transfer_type

_BLOCK_BYTES: Final = 4 << 20
"""Records are parsed in blocks of at least this size."""
_TRAILING: Final = {column.name: column for column in HIDDEN_COLUMNS}


def csv_batches(
    columns: Sequence[Column], chunks: Iterable[bytes], trailing: Sequence[str] = ()
) -> Iterator[pa.RecordBatch]:
    """Yield record batches in storage types from CSV of transfer forms, with bounded memory.

    NULL is an unquoted empty field. Chunks may end anywhere. ``trailing`` names further fields of
    each line, which are hidden columns.

    Raises:
        GatewayError: 0A000 for a value the storage type cannot hold.
    """
    fields = [(column_name(column.attnum), column.type_oid, column.typmod) for column in columns]
    fields += [(name, _TRAILING[name].type_oid, _TRAILING[name].typmod) for name in trailing]
    names = [name for name, _, _ in fields]
    options = csv.ConvertOptions(
        column_types={name: transfer_type(oid, typmod) for name, oid, typmod in fields},
        null_values=[""],
        true_values=["t", "true"],
        false_values=["f", "false"],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    for block in _whole_records(chunks):
        read = _read(block, names, options)
        yield pa.RecordBatch.from_arrays(
            [
                from_transfer(values, oid, typmod)
                for values, (_, oid, typmod) in zip(read.columns, fields, strict=True)
            ],
            names=names,
        )


def _read(block: bytes, names: list[str], options: csv.ConvertOptions) -> pa.RecordBatch:
    try:
        table = csv.read_csv(
            pa.BufferReader(block),
            csv.ReadOptions(column_names=names, block_size=len(block) + 1),
            csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
            options,
        )
    except pa.ArrowInvalid as error:
        raise GatewayError(
            "a value cannot be stored",
            sqlstate=codes.FEATURE_NOT_SUPPORTED,
            detail=str(error),
        ) from error
    return table.combine_chunks().to_batches()[0]


def _whole_records(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Regroup chunks to blocks that end at the end of a record."""
    gathered: list[bytes] = []
    size = 0
    wanted = _BLOCK_BYTES
    for chunk in chunks:
        gathered.append(bytes(chunk))
        size += len(chunk)
        if size < wanted:
            continue
        block = b"".join(gathered)
        end = _end_of_records(block)
        if end:
            yield block[:end]
        gathered = [block[end:]]
        size = len(block) - end
        # A record longer than a block is looked at again only when it has doubled.
        wanted = max(_BLOCK_BYTES, 2 * size)
    if size:
        yield b"".join(gathered)


def _end_of_records(block: bytes) -> int:
    """Return where the last whole record ends: at a line end with no open quote before it."""
    end = block.rfind(b"\n") + 1
    quotes = block.count(b'"', 0, end)
    while end and quotes % 2:
        before = block.rfind(b"\n", 0, end - 1) + 1
        quotes -= block.count(b'"', before, end)
        end = before
    return end
