"""How long small writes of a tiered table take while its hot rows go cold, and while they stay.

Upkeep lets rows go cold as soon as it finds more hot than the table is to have; each write of a
row after that has it in files again. Clients pause between writes: what is looked for is how long
one is kept waiting, not how many a machine can do.
"""

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle

from benchmarks.client import AnswerError, Client
from benchmarks.datasets import Dataset, load_gateway, load_postgres
from benchmarks.laboratory import Laboratory
from benchmarks.outcomes import Judgement, Outcome, Samples, milliseconds

ROWS = 100_000
CLIENTS = 2
KEYS = 10
"""Rows of each client."""
PAUSE_S = 0.01
RUN_S = 12
LEAST_FREEZES = 2

MEDIAN_AIM_MS = 5.0
P99_AIM_MS = 100.0
LONGEST_AIM_MS = 500.0

INT8 = 20

FREEZING = (
    "ALTER TABLE {table} SET (gateway.hot_rows = 5)",
    "ALTER TABLE {table} SET (gateway.hot_age_s = 1)",
)
NOT_FREEZING = (
    "ALTER TABLE {table} SET (gateway.hot_rows = 100000)",
    "ALTER TABLE {table} SET (gateway.hot_age_s = 3600)",
)

UPDATE = "UPDATE {table} SET amount = amount + 1 WHERE id = $1"

_COLD = re.compile(r"rows of table (\d+) went cold")


def run(laboratory: Laboratory) -> Outcome:
    """Measure the same writes with hot rows that stay and with such that do not."""
    dataset = Dataset("frozen", laboratory.rows(ROWS))
    load_postgres(laboratory.postgres.address, dataset)
    load_gateway(laboratory.postgres.address, laboratory.gateway.address, dataset)
    seconds = laboratory.seconds(RUN_S)
    with laboratory.connect_gateway() as client:
        ((number,),) = client.query(f"SELECT '{dataset.table}'::regclass::oid::int8")
        _set(client, dataset, NOT_FREEZING)
        _write(laboratory, dataset, 1)  # makes the rows hot
        calm = _write(laboratory, dataset, seconds)
        _set(client, dataset, FREEZING)
        before = _freezes(laboratory, number)
        beside = _write(laboratory, dataset, seconds)
        freezes = _freezes(laboratory, number) - before
        # A smoke test is over before upkeep has come by.
        if laboratory.scale >= 1 and freezes < LEAST_FREEZES:
            raise AnswerError(f"all rows went cold {freezes} times")
        if client.query(f"SELECT gateway.check('{dataset.table}')") != [("0",)]:
            raise AnswerError("hot rows differ from their journal")
        client.query(f"DROP TABLE {dataset.table}")
    found = {
        "gateway, small write, rows stay hot": calm,
        "gateway, small write, rows go cold beside it": beside,
    }
    samples = [milliseconds(label, times) for label, times in found.items()]
    return Outcome(
        (
            _judgement("p50", samples[1].median, MEDIAN_AIM_MS),
            _judgement("p99", samples[1].percentile(0.99), P99_AIM_MS),
            _judgement("longest", max(samples[1].values), LONGEST_AIM_MS),
        ),
        tuple(samples),
        (
            f"{dataset.rows:,} rows: all hot ones went cold {freezes} times in {seconds} s.",
            *(_told(one) for one in samples),
        ),
    )


def _judgement(what: str, value: float, limit: float) -> Judgement:
    return Judgement(f"small write while rows go cold, {what}", value, limit, unit="ms")


def _told(samples: Samples) -> str:
    return (
        f"{samples.label}: p50 {samples.median:.1f}, p99 {samples.percentile(0.99):.1f},"
        f" longest {max(samples.values):.1f} {samples.unit}, {len(samples.values):,} writes."
    )


def _set(client: Client, dataset: Dataset, statements: tuple[str, ...]) -> None:
    for statement in statements:
        client.query(statement.format(table=dataset.table))


def _freezes(laboratory: Laboratory, number: str | None) -> int:
    lines = map(_COLD.search, laboratory.gateway.log)
    return sum(found[1] == number for found in lines if found)


def _write(laboratory: Laboratory, dataset: Dataset, seconds: float) -> list[float]:
    """Have clients write rows of their own, and return how long each write took."""
    with ThreadPoolExecutor(CLIENTS) as pool:
        end = time.monotonic() + seconds
        running = [
            pool.submit(lambda place=place: list(_times(laboratory, dataset, place, end)))
            for place in range(CLIENTS)
        ]
        return [taken for future in running for taken in future.result()]


def _times(laboratory: Laboratory, dataset: Dataset, place: int, end: float) -> Iterator[float]:
    first = 1 + place * dataset.rows // CLIENTS
    with laboratory.connect_gateway() as client:
        client.prepare("write", UPDATE.format(table=dataset.table), [INT8])
        for key in cycle(range(first, first + KEYS)):
            if time.monotonic() > end:
                return
            yield client.time_prepared("write", str(key))
            time.sleep(PAUSE_S)
