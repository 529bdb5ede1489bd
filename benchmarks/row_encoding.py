"""Rows per second of the encoders, by column type and format.

Run from the root of the repository: ``python -m benchmarks.row_encoding [--rows 200000]``.
"""

import argparse
import time
import uuid
from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa

from pgwire_gateway.wire_types import type_oids
from pgwire_gateway.wire_types.copy_encoder import CopyEncoder, CopyOptions
from pgwire_gateway.wire_types.registry import INTERVAL_TYPE
from pgwire_gateway.wire_types.row_encoder import EncodingSettings, ResultColumn, RowEncoder

MONEY = ((15 << 16) | 2) + 4
"""Type modifier of numeric(15,2)."""
TYPES = {
    "int4": type_oids.INT4,
    "int8": type_oids.INT8,
    "text": type_oids.TEXT,
    "numeric": type_oids.NUMERIC,
    "date": type_oids.DATE,
    "float8": type_oids.FLOAT8,
    "bool": type_oids.BOOL,
    "time": type_oids.TIME,
    "timestamp": type_oids.TIMESTAMP,
    "timestamptz": type_oids.TIMESTAMPTZ,
    "interval": type_oids.INTERVAL,
    "uuid": type_oids.UUID,
    "bytea": type_oids.BYTEA,
    "array": 1007,
}
SIMPLE = ("int4", "int8", "text", "numeric", "date", "bool")
"""A row as tables commonly have it."""
REPETITIONS = 3


def sample(rows: int) -> pa.RecordBatch:
    """Return random values of every type."""
    random = np.random.default_rng(1)
    numbers = random.integers(0, 10**9, rows)
    instants = pa.array(random.integers(0, 2 * 10**15, rows))
    names = pa.array([f"name {number % 100_000}" for number in numbers])
    unscaled = pa.array(numbers).cast(pa.decimal128(19, 0))
    cents = pa.Array.from_buffers(pa.decimal128(15, 2), rows, unscaled.buffers())
    intervals = [
        {"months": n % 50, "days": n % 7, "microseconds": n % 1000 * 10**6}
        for n in numbers.tolist()
    ]
    return pa.record_batch(
        {
            "int4": pa.array(numbers.astype(np.int32)),
            "int8": pa.array(numbers * 1000),
            "text": names,
            "numeric": cents,
            "date": pa.array(random.integers(-5000, 20_000, rows).astype(np.int32)).cast("date32"),
            "float8": pa.array(random.random(rows)),
            "bool": pa.array(random.random(rows) > 0.5),
            "time": pa.array(random.integers(0, 86_400_000_000, rows)),
            "timestamp": instants.cast(pa.timestamp("us")),
            "timestamptz": instants.cast(pa.timestamp("us", "UTC")),
            "interval": pa.array(intervals, INTERVAL_TYPE),
            "uuid": pa.array([str(uuid.UUID(int=n << 96)) for n in numbers.tolist()]),
            "bytea": names.cast(pa.binary()),
            "array": pa.array([[n, n] for n in numbers.tolist()], pa.list_(pa.int32())),
        }
    )


def columns(names: Iterable[str], format_code: int) -> list[ResultColumn]:
    """Describe columns of the sample."""
    return [
        ResultColumn(TYPES[name], MONEY if name == "numeric" else -1, format_code, name)
        for name in names
    ]


def report(label: str, batch: pa.RecordBatch, chunks: Callable[[], Iterable[memoryview]]) -> None:
    """Print the best of some runs."""
    seconds, size = float("inf"), 0
    for _ in range(REPETITIONS):
        start = time.perf_counter()
        size = sum(len(chunk) for chunk in chunks())
        seconds = min(seconds, time.perf_counter() - start)
    rows = batch.num_rows / seconds / 1e6
    print(f"{label:32} {rows:7.2f} M rows/s {size / seconds / 1e6:7.0f} MB/s")


def main() -> None:
    """Measure DataRow and COPY encoding."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    batch = sample(parser.parse_args().rows)
    settings = EncodingSettings(time_zone="Europe/Berlin")
    for names in (SIMPLE, *((name,) for name in TYPES)):
        for format_code, form in enumerate(("text", "binary")):
            encoder = RowEncoder(columns(names, format_code), settings)
            label = names[0] if len(names) == 1 else f"{len(names)} columns"
            report(f"{label}, {form}", batch, lambda e=encoder: e.chunks(batch))
    for form in ("text", "csv", "binary"):
        copy = CopyEncoder(columns(SIMPLE, 0), SIMPLE, CopyOptions(form), settings)
        report(f"COPY {len(SIMPLE)} columns, {form}", batch, lambda e=copy: e.chunks(batch))


if __name__ == "__main__":
    main()
