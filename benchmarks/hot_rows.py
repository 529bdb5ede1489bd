"""Change single rows of a large tiered table: cold ones, hot ones, and by many clients at once."""

import random
import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from benchmarks import freezing
from benchmarks.client import AnswerError, Client
from benchmarks.datasets import Dataset, create, load_gateway, load_postgres
from benchmarks.laboratory import Laboratory
from benchmarks.outcomes import Judgement, Outcome, Samples, milliseconds
from benchmarks.point_select import require_equal
from tests.support import programs
from tests.support.servers import Address

TITLE = "Small writes of a large tiered table, row by row"

ROWS = (2_000_000, 5_000_000)
STATEMENTS = 100
WARM_UP = 10
MERGES = 10
MERGED_ROWS = 100
HOT_KEYS = 50
RUN_S = 5
BESIDE_S = 20
ROUNDS = 3
READS = 7
READS_IN_TURNS = 15
CHANGES = 10_000
CHANGED = 20_000
"""Rows that the condition of an UPDATE names."""
PARTS = 7
CLIENTS = 8

COLD_AIM_MS = 15.0
HOT_AIM_MS = 2.0
INSERT_AIM_MS = 5.0
MERGE_AIM_MS = 60.0
CONDITION_AIM_S = 0.77
READ_AIM = 1.15
BESIDE_AIM = 3.0
PACE = 50
"""Transfers per second beside which a query is read, too: more than whole-table locks let through,
and so few that the processors are not what is shared."""
PACED_AIM = 1.25

INT8 = 20

UPDATE = "UPDATE {table} SET amount = amount + 1 WHERE id = $1"
DELETE = "DELETE FROM {table} WHERE id = $1"
UPSERT = (
    "INSERT INTO {table} VALUES ($1, 17, 'order', 12.50, '2025-03-04 05:06:07+00', 'new')"
    " ON CONFLICT (id) DO UPDATE SET amount = {table}.amount + 1"
)
INSERT = "INSERT INTO {table} VALUES ($1, 17, 'order', 12.50, '2025-03-04 05:06:07+00', 'new')"
LOCK = "SELECT * FROM {table} WHERE id = $1 FOR UPDATE"
CHECKED = "SELECT count(*), sum(amount), max(id) FROM {table}"
READ = "SELECT kind, count(*), sum(amount), max(account) FROM {table} GROUP BY kind ORDER BY kind"
CONDITION = "UPDATE {table} SET amount = amount + 1 WHERE account % {parts} = {part}"

RATES = {
    "transfers on disjoint rows": (300.0, ":client_id * 1000 + "),
    "transfers on 50 hot rows": (200.0, ""),
}
"""Aims in transactions per second, and what is before the number of a row in a transfer."""

QUEUE_AIM = 300.0
QUEUE = """\
UPDATE {queue} SET state = 'done' WHERE id = (
    SELECT id FROM {queue} WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED);
"""
QUEUED = 5_000

_RATE = re.compile(r"^tps = ([0-9.]+) ", re.MULTILINE)
_FAILED = re.compile(r"^number of failed transactions: ([0-9]+) ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Pair:
    """The two servers, with the same tables."""

    gateway: Client
    postgres: Client
    addresses: dict[str, Address]

    def times(self, label: str, statement: str, keys: Iterator[int], number: int) -> list[Samples]:
        """Return the times that a statement takes on each server, with keys in turn."""
        taken: dict[str, list[float]] = {"gateway": [], "PostgreSQL": []}
        name = label.replace(" ", "_").replace(",", "")
        for client in (self.gateway, self.postgres):
            client.prepare(name, statement, [INT8])
        for turn in range(-WARM_UP, number):
            key = str(next(keys))
            one = {
                "gateway": self.gateway.time_prepared(name, key),
                "PostgreSQL": self.postgres.time_prepared(name, key),
            }
            for server, seconds in one.items() if turn >= 0 else ():
                taken[server].append(seconds)
        return [milliseconds(f"{server}, {label}", times) for server, times in taken.items()]


def run(laboratory: Laboratory) -> Outcome:
    """Measure single statements, then rates, then what reading costs beside them and afterwards.

    Last, on a table of its own, what a single statement costs while rows go cold.
    """
    outcomes = [*(_of_table(laboratory, rows) for rows in ROWS), freezing.run(laboratory)]
    return Outcome(
        tuple(judgement for outcome in outcomes for judgement in outcome.judgements),
        tuple(samples for outcome in outcomes for samples in outcome.samples),
        (
            "Rows are in files; statements are prepared, and autocommitted.",
            *(fact for outcome in outcomes for fact in outcome.facts),
        ),
    )


def _of_table(laboratory: Laboratory, rows: int) -> Outcome:
    """Measure all of it on a table of so many rows, which is gone afterwards."""
    dataset = Dataset(f"ledger_{rows // 1_000_000}m", laboratory.rows(rows))
    load_postgres(laboratory.postgres.address, dataset)
    load_gateway(laboratory.postgres.address, laboratory.gateway.address, dataset)
    addresses = {"gateway": laboratory.gateway.address, "PostgreSQL": laboratory.postgres.address}
    with laboratory.connect_gateway() as gateway, laboratory.connect_postgres() as postgres:
        pair = _Pair(gateway, postgres, addresses)
        alone = _read_times(gateway, dataset, "alone")
        judgements, samples = _statements(laboratory, pair, dataset)
        require_equal(gateway, postgres, CHECKED.format(table=dataset.table))
        rated, rates = _rates(laboratory, pair, dataset)
        beside = _beside_transfers(laboratory, pair, dataset)
        paced = _beside_transfers(laboratory, pair, dataset, PACE)
        changed = _condition_times(pair, dataset)
        compacted, after = _around_changes(laboratory, pair, dataset)
        if gateway.query(f"SELECT gateway.check('{dataset.table}')") != [("0",)]:
            raise AnswerError("hot rows differ from their journal")
        for client in (gateway, postgres):
            client.query(f"DROP TABLE {dataset.table}")
    judgements += rated
    judgements += [
        Judgement(
            f"UPDATE of {CHANGED:,} rows by a condition, p50",
            changed[0].median / 1000,
            CONDITION_AIM_S,
            unit="s",
        ),
        Judgement(
            f"aggregate after {CHANGES:,} hot changes ÷ compacted",
            after.median / compacted.median,
            READ_AIM,
        ),
        Judgement(
            "aggregate beside transfers ÷ alone",
            beside[0].median / alone.median,
            BESIDE_AIM,
        ),
        Judgement(
            f"aggregate beside {PACE} transfers/s ÷ alone",
            paced[0].median / alone.median,
            PACED_AIM,
        ),
    ]
    measured = [*samples, *rates, *changed, alone, *beside, *paced, compacted, after]
    size = f"{rows // 1_000_000} M rows"
    return Outcome(
        tuple(replace(judgement, name=f"{size}: {judgement.name}") for judgement in judgements),
        tuple(replace(found, label=f"{size}: {found.label}") for found in measured),
    )


# statements -------------------------------------------------------------------------------------


def _statements(
    laboratory: Laboratory, pair: _Pair, dataset: Dataset
) -> tuple[list[Judgement], list[Samples]]:
    table, number = dataset.table, laboratory.repetitions(STATEMENTS)
    chosen = random.Random(7).sample(range(10_000, dataset.rows), 3 * (number + WARM_UP))  # noqa: S311 - the same keys in every run
    cold, new = iter(chosen), count(dataset.rows + 1)
    hot = (1 + turn % HOT_KEYS for turn in count())
    doomed = range(HOT_KEYS + 1, HOT_KEYS + 1 + number + WARM_UP)
    for key in (*range(1, HOT_KEYS + 1), *doomed):
        pair.gateway.query(f"UPDATE {table} SET note = note WHERE id = {key}")
    judgements, samples = [], []
    for label, statement, keys, aim in (
        ("UPDATE, cold", UPDATE, cold, COLD_AIM_MS),
        ("DELETE, cold", DELETE, cold, COLD_AIM_MS),
        ("upsert, cold", UPSERT, cold, COLD_AIM_MS),
        ("UPDATE, hot", UPDATE, hot, HOT_AIM_MS),
        ("upsert, hot", UPSERT, hot, HOT_AIM_MS),
        ("DELETE, hot", DELETE, iter(doomed), HOT_AIM_MS),
        ("SELECT FOR UPDATE, hot", LOCK, hot, HOT_AIM_MS),
        ("INSERT", INSERT, new, INSERT_AIM_MS),
    ):
        found = pair.times(label, statement.format(table=table), keys, number)
        judgements.append(Judgement(f"{label}, p50", found[0].median, aim, unit="ms"))
        samples += found
    merged = _merges(laboratory, pair, dataset, new)
    median = merged[0].median
    judgements.append(Judgement("MERGE of 100 VALUES, p50", median, MERGE_AIM_MS, unit="ms"))
    return judgements, [*samples, *merged]


def _merges(
    laboratory: Laboratory, pair: _Pair, dataset: Dataset, new: Iterator[int]
) -> list[Samples]:
    """Return how long each server takes to merge rows of which half are there, in a row."""
    taken: dict[str, list[float]] = {"gateway": [], "PostgreSQL": []}
    first = dataset.rows // 2
    for _ in range(laboratory.repetitions(MERGES)):
        keys = [
            *range(first, first + MERGED_ROWS // 2),
            *(next(new) for _ in range(MERGED_ROWS // 2)),
        ]
        first += MERGED_ROWS
        values = ", ".join(f"({key}, 3.5)" for key in keys)
        merge = (
            f"MERGE INTO {dataset.table} t USING (VALUES {values}) s (id, amount) ON t.id = s.id"
            " WHEN MATCHED THEN UPDATE SET amount = t.amount + s.amount"
            " WHEN NOT MATCHED THEN INSERT VALUES (s.id, 1, 'fee', s.amount, now(), 'merged')"
        )
        taken["gateway"].append(pair.gateway.time(merge))
        taken["PostgreSQL"].append(pair.postgres.time(merge))
    return [milliseconds(f"{name}, MERGE of 100 VALUES", times) for name, times in taken.items()]


# rates ------------------------------------------------------------------------------------------


def _rates(
    laboratory: Laboratory, pair: _Pair, dataset: Dataset
) -> tuple[list[Judgement], list[Samples]]:
    judgements, samples = [], []
    for label, (aim, before) in RATES.items():
        script = _transfer(dataset, before)
        for server, rates in _alternating(laboratory, pair, script).items():
            samples.append(Samples(f"{server}, {label}", tuple(rates), "transactions/s"))
            if server == "gateway":
                median = samples[-1].median
                judgements.append(Judgement(label, median, aim, at_least=True, unit="per s"))
    for server, rates in _queue_rates(laboratory, pair).items():
        label = f"SKIP LOCKED queue, {CLIENTS} workers"
        samples.append(Samples(f"{server}, {label}", tuple(rates), "transactions/s"))
        if server == "gateway":
            median = samples[-1].median
            judgements.append(Judgement(label, median, QUEUE_AIM, at_least=True, unit="per s"))
    return judgements, samples


def _transfer(dataset: Dataset, before: str) -> str:
    """Return a script that moves an amount, always to a higher key: so there are no deadlocks."""
    middle = HOT_KEYS // 2
    return (
        f"\\set one {before}random(1, {middle})\n"
        f"\\set other {before}random({middle + 1}, {HOT_KEYS})\n"
        "BEGIN;\n"
        f"UPDATE {dataset.table} SET amount = amount - 1 WHERE id = :one;\n"
        f"UPDATE {dataset.table} SET amount = amount + 1 WHERE id = :other;\n"
        "COMMIT;\n"
    )


def _alternating(laboratory: Laboratory, pair: _Pair, script: str) -> dict[str, list[float]]:
    rates: dict[str, list[float]] = {}
    file = laboratory.directory / "script.sql"
    file.write_text(script)
    for turn in range(-1, laboratory.repetitions(ROUNDS)):
        for server, address in pair.addresses.items():
            rate = _rate(address, file, laboratory.seconds(RUN_S))
            if turn >= 0:  # the round before makes the rows hot
                rates.setdefault(server, []).append(rate)
    return rates


def _queue_rates(laboratory: Laboratory, pair: _Pair) -> dict[str, list[float]]:
    """Let workers take what is new; the first statement of each run finds it in files."""
    rates: dict[str, list[float]] = {}
    file = laboratory.directory / "queue.sql"
    for turn in range(laboratory.repetitions(ROUNDS)):
        queue = f"queue_{turn}"
        for client in (pair.gateway, pair.postgres):
            client.query(f"DROP TABLE IF EXISTS {queue}")
        file.write_text(QUEUE.format(queue=queue))
        number = laboratory.rows(QUEUED)
        for client in (pair.gateway, pair.postgres):
            client.query(f"CREATE TABLE {queue} (id bigint PRIMARY KEY, state text)")
            client.query(f"CREATE INDEX ON {queue} (id) WHERE state = 'new'")
            client.query(
                f"INSERT INTO {queue} SELECT g, CASE WHEN g > {number} THEN 'old' ELSE 'new' END"
                f" FROM generate_series(1, {number * 10}) g"
            )
            client.query(f"VACUUM {queue}")
        for server, address in pair.addresses.items():
            rate = _rate(address, file, 0, transactions=number // CLIENTS)
            rates.setdefault(server, []).append(rate)
        done = f"SELECT state, count(*) FROM {queue} GROUP BY state ORDER BY state"
        require_equal(pair.gateway, pair.postgres, done)
    return rates


def _rate(
    address: Address, file: Path, seconds: int, transactions: int = 0, pace: int = 0
) -> float:
    """Return the transactions per second of one run of pgbench; it begins no more than `pace`.

    Raises:
        AnswerError: Transactions failed.
    """
    length = ("-t", str(transactions)) if transactions else ("-T", str(seconds))
    limit = ("-R", str(pace)) if pace else ()
    arguments = (*("-n", "-M", "prepared", "-c", str(CLIENTS), "-j", "2"), *length, *limit)
    arguments = (*arguments, "-f", str(file))
    done = programs.run("pgbench", arguments, server=address.variables())
    if done.returncode != 0:
        raise subprocess.CalledProcessError(done.returncode, "pgbench", done.stdout, done.stderr)
    rate, failed = _RATE.search(done.stdout), _FAILED.search(done.stdout)
    if rate is None or failed is None or failed[1] != "0":
        raise AnswerError(f"pgbench says:\n{done.stdout}\n{done.stderr}")
    return float(rate[1])


# reading ----------------------------------------------------------------------------------------


def _condition_times(pair: _Pair, dataset: Dataset) -> list[Samples]:
    """Return how long each server takes to change rows that a condition names, others each time.

    The first one, with Spark's code for it not yet compiled, is the median's as well.
    """
    taken: dict[str, list[float]] = {"gateway": [], "PostgreSQL": []}
    parts = max(1, dataset.rows // CHANGED)
    for part in range(PARTS):
        statement = CONDITION.format(table=dataset.table, parts=parts, part=part)
        taken["gateway"].append(pair.gateway.time(statement))
        taken["PostgreSQL"].append(pair.postgres.time(statement))
    return [
        milliseconds(f"{server}, UPDATE of {CHANGED:,} rows by a condition", times)
        for server, times in taken.items()
    ]


def _beside_transfers(
    laboratory: Laboratory, pair: _Pair, dataset: Dataset, pace: int = 0
) -> list[Samples]:
    """Return how long a query takes on each server while clients transfer amounts there.

    Without a pace they do so as fast as they can. Whoever transfers takes processor time of both
    servers: compare them, not with a quiet machine.
    """
    file = laboratory.directory / "script.sql"
    file.write_text(_transfer(dataset, ""))
    read = READ.format(table=dataset.table)
    found = []
    for server, client in (("gateway", pair.gateway), ("PostgreSQL", pair.postgres)):
        with ThreadPoolExecutor(1) as pool:
            seconds = laboratory.seconds(BESIDE_S)
            running = pool.submit(_rate, pair.addresses[server], file, seconds, pace=pace)
            times = []
            while not running.done():
                times.append(client.time(read))
            rate = running.result()
        busy = f"{pace} transfers/s" if pace else "transfers"
        found += [
            milliseconds(f"{server}, aggregate, beside {busy}", times),
            Samples(f"{server}, {busy}, beside aggregates", (rate,), "transactions/s"),
        ]
    return found


def _around_changes(
    laboratory: Laboratory, pair: _Pair, dataset: Dataset
) -> tuple[Samples, Samples]:
    """Return how long a query takes of a compacted table, and of its like after hot changes.

    The two are read in turns: what else the machine does meets both.
    """
    gateway = pair.gateway
    gateway.query(f"VACUUM {dataset.table}")
    like = replace(dataset, table=f"{dataset.table}_compacted")
    create(gateway, like)
    gateway.query(f"INSERT INTO {like.table} SELECT * FROM {dataset.table}")
    gateway.query(f"VACUUM {like.table}")
    file = laboratory.directory / "script.sql"
    file.write_text(_transfer(dataset, ""))
    changes = max(CLIENTS, int(CHANGES * min(laboratory.scale, 1)))
    _rate(pair.addresses["gateway"], file, 0, transactions=changes // 2 // CLIENTS)
    times: dict[str, list[float]] = {like.table: [], dataset.table: []}
    for turn in range(-1, READS_IN_TURNS):
        for table, taken in times.items():
            seconds = gateway.time(READ.format(table=table))
            if turn >= 0:
                taken.append(seconds)
    gateway.query(f"DROP TABLE {like.table}")
    return (
        milliseconds("gateway, aggregate, compacted", times[like.table]),
        milliseconds("gateway, aggregate, after hot changes", times[dataset.table]),
    )


def _read_times(gateway: Client, dataset: Dataset, label: str) -> Samples:
    times = [gateway.time(READ.format(table=dataset.table)) for _ in range(READS + 1)]
    return milliseconds(f"gateway, aggregate, {label}", times[1:])
