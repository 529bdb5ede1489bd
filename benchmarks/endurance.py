"""Write rows of a tiered table for an hour without a pause, and watch what PostgreSQL keeps of it.

Clients change a thousand rows again and again, and others here and there, so that too many rows
are hot time and again. They leave no gap: upkeep has to find one.
"""

import re
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psycopg

from benchmarks.client import AnswerError, Client
from benchmarks.datasets import Dataset, load_gateway, load_postgres
from benchmarks.laboratory import Laboratory
from benchmarks.outcomes import Judgement, Outcome, Samples
from catalog.server.embedded import SUPERUSER
from tests.support import programs
from tests.support.servers import Address, GatewayProcess

TITLE = "Sizes of a tiered table under an hour of small writes"

ROWS = 500_000
RUN_S = 3600
CLIENTS = 4
HOT_KEYS = 1_000
MOST_HOT_ROWS = 2_000
SAMPLE_S = 5.0

GROWTH_AIM = 1.25
"""The largest size in the last third of the time, compared with that in the first third."""

HOT_AIM = 10.0
"""Hot rows at any time, in multiples of those at which upkeep lets them go cold."""

OPTIONS = ("--resident-rows=0", f"--hot-rows={MOST_HOT_ROWS}", "--hot-age-s=30", "--flush-age-s=10")

TRANSFER = f"""\
\\set one random(1, {HOT_KEYS // 2})
\\set other random({HOT_KEYS // 2 + 1}, {HOT_KEYS})
BEGIN;
UPDATE {{table}} SET account = account - 1 WHERE id = :one;
UPDATE {{table}} SET account = account + 1, note = :other WHERE id = :other;
COMMIT;
"""
ANYWHERE = """\
\\set one random({above}, {rows})
UPDATE {table} SET amount = amount + 1 WHERE id = :one;
"""
UPSERT = """\
\\set one random({above}, {rows} * 2)
INSERT INTO {table} VALUES (:one, 17, 'order', 12.50, now(), 'new')
    ON CONFLICT (id) DO UPDATE SET amount = {table}.amount + 1;
"""
DELETE = """\
\\set one random({above}, {rows} * 2)
DELETE FROM {table} WHERE id = :one;
"""

SCRIPTS = {
    "transfer": (70, TRANSFER),
    "anywhere": (20, ANYWHERE),
    "upsert": (5, UPSERT),
    "delete": (5, DELETE),
}
"""What clients do, and how often."""

CHECKED = "SELECT sum(account) FROM {table} WHERE id <= {keys}"

_SIZES = """
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0), coalesce(sum(pg_indexes_size(c.oid)), 0),
       coalesce(sum(pg_stat_get_live_tuples(c.oid)), 0),
       coalesce(sum(pg_stat_get_dead_tuples(c.oid)), 0)
  FROM pg_class c WHERE c.oid = to_regclass(%s)
"""

_DONE = re.compile(r"^number of transactions actually processed: ([0-9]+)", re.MULTILINE)
_RATE = re.compile(r"^tps = ([0-9.]+) ", re.MULTILINE)
_COLD = re.compile(r"(\d+) rows of table \d+ went cold")
_FLUSHED = re.compile(r"flushed (\d+) row versions")


@dataclass(frozen=True, slots=True)
class _Size:
    """What PostgreSQL holds of one relation at one time."""

    seconds: float
    total_bytes: int
    index_bytes: int
    rows: int
    dead_rows: int


class _Watch:
    """Looks at the relations of a table time and again, while the context lasts."""

    def __init__(self, socket: Path, table: str) -> None:
        self.sizes: dict[str, list[_Size]] = {}
        self._socket = socket
        self._table = table
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "_Watch":
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        with psycopg.connect(
            host=str(self._socket), user=SUPERUSER, dbname="postgres", autocommit=True
        ) as connection:
            relid = connection.execute("SELECT %s::regclass::oid::int8", (self._table,)).fetchone()[
                0
            ]
            names = {
                "table": self._table,
                "tail": f"pg_journal.tail_{relid}",
                "hot keys": f"pg_journal.hot_{relid}",
            }
            began = time.monotonic()
            while not self._stopping.wait(SAMPLE_S):
                for label, name in names.items():
                    found = connection.execute(_SIZES, (name,)).fetchone()
                    size = _Size(time.monotonic() - began, *map(int, found))
                    self.sizes.setdefault(label, []).append(size)


def run(laboratory: Laboratory) -> Outcome:
    """Load a table, let clients write it, and judge what is left."""
    dataset = Dataset("ledger", laboratory.rows(ROWS))
    load_postgres(laboratory.postgres.address, dataset)
    with GatewayProcess(laboratory.directory / "endurance", *OPTIONS) as gateway:
        load_gateway(laboratory.postgres.address, gateway.address, dataset)
        with Client(gateway.address) as client:
            before = client.query(CHECKED.format(table=dataset.table, keys=HOT_KEYS))
        seconds = laboratory.seconds(RUN_S)
        with _Watch(gateway.data_dir / "socket", dataset.table) as watch:
            transactions, rate = _write(laboratory, gateway.address, dataset, seconds)
        with Client(gateway.address) as client:
            if client.query(CHECKED.format(table=dataset.table, keys=HOT_KEYS)) != before:
                raise AnswerError("transfers have made or lost money")
            if client.query(f"SELECT gateway.check('{dataset.table}')") != [("0",)]:
                raise AnswerError("hot rows differ from their journal")
        log = gateway.log_text()
    return _outcome(watch.sizes, transactions, rate, log, seconds)


def _outcome(
    sizes: dict[str, list[_Size]], transactions: int, rate: float, log: str, seconds: int
) -> Outcome:
    most_hot = max(size.rows for size in (*sizes["table"], *sizes["hot keys"]))
    return Outcome(
        (
            *(
                Judgement(f"{label}, growth", _growth(found, seconds), GROWTH_AIM)
                for label, found in sizes.items()
            ),
            Judgement("most hot rows ÷ hot_rows", most_hot / MOST_HOT_ROWS, HOT_AIM),
        ),
        tuple(
            Samples(f"{label}, {what}", tuple(number(size) for size in found), unit)
            for label, found in sizes.items()
            for what, unit, number in (
                ("size", "MB", lambda size: size.total_bytes / 1e6),
                ("indexes", "MB", lambda size: size.index_bytes / 1e6),
                ("rows", "rows", lambda size: float(size.rows)),
                ("dead rows", "rows", lambda size: float(size.dead_rows)),
            )
        ),
        (
            f"{transactions:,} transactions in {seconds} s, {rate:.0f} per s.",
            f"All rows went cold {len(_COLD.findall(log))} times.",
            f"The tail was flushed {len(_FLUSHED.findall(log))} times.",
            *(f"{label}: {_course(found, seconds)}." for label, found in sizes.items()),
        ),
    )


def _growth(sizes: Sequence[_Size], seconds: float) -> float:
    """Return the largest size in the last third of the time by that in the first."""
    thirds = [
        max(size.total_bytes for size in sizes if low <= size.seconds / seconds < high)
        for low, high in ((0, 1 / 3), (2 / 3, 2))
    ]
    return thirds[1] / max(thirds[0], 1)


def _course(sizes: Sequence[_Size], seconds: float) -> str:
    """Tell the largest size in each tenth of the time."""
    tenths = [
        max((s.total_bytes for s in sizes if n <= s.seconds * 10 / seconds < n + 1), default=0)
        for n in range(10)
    ]
    return "largest size in each tenth of the time, MB: " + ", ".join(
        f"{tenth / 1e6:.1f}" for tenth in tenths
    )


def _write(
    laboratory: Laboratory, address: Address, dataset: Dataset, seconds: int
) -> tuple[int, float]:
    """Let clients write; return the transactions, and how many there were in a second.

    Raises:
        AnswerError: Transactions failed.
    """
    arguments = ["-n", "-M", "prepared", "-c", str(CLIENTS), "-j", "2", "-T", str(seconds)]
    for name, (weight, text) in SCRIPTS.items():
        file = laboratory.directory / f"{name}.sql"
        file.write_text(text.format(table=dataset.table, rows=dataset.rows, above=HOT_KEYS + 1))
        arguments += ["-f", f"{file}@{weight}"]
    done = programs.run(
        "pgbench", tuple(arguments), server=address.variables(), timeout_s=seconds * 2 + 60
    )
    if done.returncode != 0:
        raise subprocess.CalledProcessError(done.returncode, "pgbench", done.stdout, done.stderr)
    number, rate = _DONE.search(done.stdout), _RATE.search(done.stdout)
    if number is None or rate is None or "failed transactions: 0 " not in done.stdout:
        raise AnswerError(f"pgbench says:\n{done.stdout}\n{done.stderr}")
    return int(number[1]), float(rate[1])
