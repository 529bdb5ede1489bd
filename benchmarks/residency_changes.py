"""Fill new resident tables, and make some tiered while others read them and write elsewhere."""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass

import psycopg

from benchmarks import datasets, residency
from benchmarks.client import AnswerError, Client
from benchmarks.datasets import Dataset
from benchmarks.laboratory import POSTGRES, RESIDENT_GATEWAY, Laboratory
from benchmarks.outcomes import Judgement, Outcome, Samples, milliseconds
from benchmarks.point_select import require_equal
from benchmarks.watching import PAUSE_S, Watch
from tests.support.servers import Address, GatewayProcess

TITLE = "COPY into new resident tables, against PostgreSQL, and the freeze of 100,000 rows"

COPY_AIM = 0.5
COPIED_ROWS = 50_000
COPIES = 7

FREEZE_AIM_MS = 1000.0
WAIT_AIM_MS = 50.0
FROZEN_ROWS = 100_000
FREEZES = 5
WATCHED_S = 5
"""How long the watchers go on without a freeze, for comparison."""
SPARK_READS = 10
"""Reads of a tiered table by which the first one is judged."""
LOG_TIMEOUT_S = 10.0

QUIET = "quiet"
WRITTEN = "written_meanwhile"

_FROZEN = re.compile(r'table "public\.(\w+)" is tiered now \(([0-9.]+) s\)')


def run(laboratory: Laboratory) -> Outcome:
    """Copy into tables of both servers in turn, then freeze one table after the other."""
    copied = _measure_copies(laboratory)
    quiet = _watch_quietly(laboratory)
    rounds = laboratory.repetitions(FREEZES)
    # The first freeze warms Spark up.
    freezes = [_measure_freeze(laboratory, number) for number in range(rounds + 1)][1:]
    logged = milliseconds("freeze, as the log has it", [one.logged_s for one in freezes])
    reads = milliseconds(
        "longest wait of a SELECT by key on the table until it is tiered",
        [one.longest_read_s for one in freezes],
    )
    writes = milliseconds(
        "longest wait of an INSERT into another table meanwhile",
        [one.longest_write_s for one in freezes],
    )
    ratio = copied[RESIDENT_GATEWAY].median / copied[POSTGRES].median
    return Outcome(
        (
            Judgement("COPY, rows/s, gateway ÷ PostgreSQL", ratio, COPY_AIM, at_least=True),
            Judgement("freeze, median", logged.median, FREEZE_AIM_MS, unit="ms"),
            *(
                Judgement(samples.label, max(samples.values), WAIT_AIM_MS, unit="ms")
                for samples in (reads, writes)
            ),
        ),
        (
            *copied.values(),
            logged,
            milliseconds("from ALTER TABLE to tiered", [one.seen_s for one in freezes]),
            reads,
            writes,
            milliseconds("first SELECT by key on Spark", [one.first_on_spark_s for one in freezes]),
            milliseconds(
                "later SELECT by key on Spark", [took for one in freezes for took in one.later_s]
            ),
            milliseconds("SELECT by key, no freeze", quiet.reads.seconds()),
            milliseconds("INSERT, no freeze", quiet.writes.seconds()),
        ),
        (
            (
                f"COPY of {laboratory.rows(COPIED_ROWS):,} rows of 6 columns into an empty table "
                "with a primary key."
            ),
            (
                f"Each frozen table has {laboratory.rows(FROZEN_ROWS):,} rows, which have just "
                "been inserted: the freeze writes them all to files. The log tells tenths of "
                "seconds."
            ),
            (
                f"Reader and writer pause for {PAUSE_S * 1000:.0f} ms after each statement; the "
                "longest wait of each freeze is a sample. Without a freeze the longest were "
                f"{1000 * max(quiet.reads.seconds()):.1f} ms (SELECT) and "
                f"{1000 * max(quiet.writes.seconds()):.1f} ms (INSERT)."
            ),
        ),
    )


# copying ----------------------------------------------------------------------------------------


def _measure_copies(laboratory: Laboratory) -> dict[str, Samples]:
    """Return rows per second of both servers."""
    addresses = {
        RESIDENT_GATEWAY: laboratory.resident_gateway.address,
        POSTGRES: laboratory.postgres.address,
    }
    dataset = Dataset("copied", laboratory.rows(COPIED_ROWS))
    pieces = datasets.lines(laboratory.postgres.address, dataset)
    rates: dict[str, list[float]] = {server: [] for server in addresses}
    with (
        laboratory.connect_resident_gateway() as gateway,
        laboratory.connect_postgres() as postgres,
    ):
        for number in range(-1, laboratory.repetitions(COPIES)):
            for server, client in ((RESIDENT_GATEWAY, gateway), (POSTGRES, postgres)):
                datasets.create(client, dataset)
                took = _copy(addresses[server], dataset.table, pieces)
                if number >= 0:  # the round before warms both up
                    rates[server].append(dataset.rows / took / 1000)
            residency.require(gateway, [dataset.table], residency.RESIDENT)
        require_equal(gateway, postgres, f"SELECT * FROM {dataset.table} ORDER BY id")
        residency.require_lawful(gateway, [dataset.table])
    return {
        RESIDENT_GATEWAY: Samples("COPY, gateway", tuple(rates[RESIDENT_GATEWAY]), "k rows/s"),
        POSTGRES: Samples("COPY, PostgreSQL", tuple(rates[POSTGRES]), "k rows/s"),
    }


def _copy(address: Address, table: str, pieces: Sequence[bytes]) -> float:
    """Return the seconds until rows are committed."""
    with psycopg.connect(address.conninfo(), autocommit=True) as connection:
        start = time.perf_counter()
        with connection.cursor().copy(f"COPY {table} FROM STDIN") as into:
            for piece in pieces:
                into.write(piece)
        return time.perf_counter() - start


# freezing ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Freeze:
    """What was seen of one freeze."""

    logged_s: float
    """How long the gateway says it took."""
    seen_s: float
    """From asking for it to finding it done: the gateway looks at its tables every few seconds."""
    longest_read_s: float
    longest_write_s: float
    first_on_spark_s: float
    later_s: tuple[float, ...]
    """Reads of the tiered table after the first."""


def _watch_quietly(laboratory: Laboratory) -> Watch:
    """Watch a table that stays what it is, and whose journal is all in files."""
    with laboratory.connect_resident_gateway() as client:
        client.query(f"DROP TABLE IF EXISTS {WRITTEN}")
        client.query(f"CREATE TABLE {WRITTEN} (id bigserial PRIMARY KEY, note text)")
        dataset = _new_table(client, QUIET, laboratory)
        client.query(f"VACUUM ANALYZE {dataset.table}")
        with Watch(laboratory.resident_gateway.address, dataset, WRITTEN) as watch:
            time.sleep(laboratory.seconds(WATCHED_S))
        residency.require(client, [dataset.table, WRITTEN], residency.RESIDENT)
    return watch


def _measure_freeze(laboratory: Laboratory, number: int) -> Freeze:
    """Freeze a new table under the eyes of a reader and a writer."""
    gateway = laboratory.resident_gateway
    with laboratory.connect_resident_gateway() as client:
        dataset = _new_table(client, f"frozen_{number}", laboratory)
        residency.require(client, [dataset.table], residency.RESIDENT)
        with Watch(gateway.address, dataset, WRITTEN) as watch:
            begin = time.perf_counter()
            residency.freeze(client, dataset.table)
            residency.wait_until_tiered(client, dataset.table)
            end = time.perf_counter()
            watch.wait_for_spark(SPARK_READS)
        _require_same_rows(client, dataset.table, QUIET)
        residency.require(client, [WRITTEN], residency.RESIDENT)
        client.query(f"DROP TABLE {dataset.table}")
    on_spark = watch.reads.seconds(on_spark=True)
    return Freeze(
        _logged_s(gateway, dataset.table),
        end - begin,
        max(watch.reads.seconds(since=begin)),
        max(watch.writes.seconds(since=begin, until=end)),
        on_spark[0],
        tuple(on_spark[1:]),
    )


def _new_table(client: Client, table: str, laboratory: Laboratory) -> Dataset:
    dataset = Dataset(table, laboratory.rows(FROZEN_ROWS))
    datasets.create(client, dataset)
    datasets.fill(client, dataset)
    return dataset


def _require_same_rows(client: Client, table: str, other: str) -> None:
    """Make sure that a table went with all its rows.

    Raises:
        AnswerError: Rows are missing or different.
    """
    ours, theirs = (
        client.query(
            "SELECT count(*), sum(id), sum(account), sum(amount), min(note), max(created_at) "
            f"FROM {name}"
        )
        for name in (table, other)
    )
    if ours != theirs:
        raise AnswerError(f"{table} holds {ours}, {other} {theirs}")


def _logged_s(gateway: GatewayProcess, table: str) -> float:
    """Return how long a freeze took, as the gateway's log has it.

    Raises:
        AnswerError: The log does not tell.
    """
    deadline = time.monotonic() + LOG_TIMEOUT_S
    while time.monotonic() < deadline:
        for line in reversed(gateway.log):
            found = _FROZEN.search(line)
            if found and found[1] == table:
                return float(found[2])
        time.sleep(0.1)
    raise AnswerError(f"the log does not tell of the freeze of {table}")
