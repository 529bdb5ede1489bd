"""The servers and tables the benchmarks share, each made when it is first asked for."""

import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Self

import pyarrow.parquet as pq

from benchmarks.bare_spark import BareSpark
from benchmarks.client import Client
from benchmarks.datasets import Dataset, Loading, load_gateway, load_postgres
from benchmarks.plain_postgres import PlainPostgres
from benchmarks.process_time import ProcessorTime
from tests.support.servers import GatewayProcess

BOOKKEEPING_COLUMNS = frozenset({"version_number", "subsequent_version_number", "row_identity"})

GATEWAY = "gateway"
RESIDENT_GATEWAY = "resident gateway"
POSTGRES = "PostgreSQL"
BARE_SPARK = "bare Spark"

COLUMN_NAMES = ("id", "account", "kind", "amount", "created_at", "note")


class Laboratory:
    """Everything that runs while benchmarks do."""

    def __init__(self, directory: Path, scale: float) -> None:
        """Keep all files in ``directory``; ``scale`` shrinks the tables and the repetitions."""
        self.directory = directory
        self.scale = scale
        self._stack = ExitStack()
        self._tiered = ExitStack()
        """What only tiered tables need."""
        self._bases: dict[str, Path] = {}
        self._loadings: dict[str, Loading] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        with self._stack:
            self._tiered.close()

    @cached_property
    def gateway(self) -> GatewayProcess:
        """The gateway as it treats large tables: without resident ones, of whatever size."""
        _say("starting the gateway")
        directory = self.directory / "gateway"
        options = ("--resident-rows=0", f"--allow-path={self.allowed_directory}")
        return self._tiered.enter_context(GatewayProcess(directory, *options))

    @cached_property
    def allowed_directory(self) -> Path:
        """Where the gateway without resident tables may read files of others."""
        directory = self.directory / "files"
        directory.mkdir(exist_ok=True)
        return directory

    @cached_property
    def resident_gateway(self) -> GatewayProcess:
        """The gateway with its default settings.

        What tiered tables needed ends before: a machine has memory for two JVMs, not for three.
        """
        self._tiered.close()
        for name in ("gateway", "bare_spark", "events", "points", "merged"):
            self.__dict__.pop(name, None)
        _say("starting the gateway with resident tables")
        return self._stack.enter_context(GatewayProcess(self.directory / "resident_gateway"))

    @cached_property
    def postgres(self) -> PlainPostgres:
        """PostgreSQL 18 of the same wheel, with its default settings."""
        _say("starting PostgreSQL")
        return self._stack.enter_context(PlainPostgres(self.directory / "postgres"))

    @cached_property
    def bare_spark(self) -> BareSpark:
        """Spark with its default settings."""
        _say("starting bare Spark")
        return self._tiered.enter_context(BareSpark(self.directory / "bare_spark"))

    @cached_property
    def events(self) -> Dataset:
        """A compacted table of 5 million rows."""
        return self._load(Dataset("events", self.rows(5_000_000)))

    @cached_property
    def points(self) -> Dataset:
        """A compacted table of 1 million rows."""
        return self._load(Dataset("points", self.rows(1_000_000)))

    @cached_property
    def merged(self) -> Dataset:
        """A compacted table of 5 million rows, for who changes it."""
        return self._load(Dataset("merged", self.rows(5_000_000)))

    def rows(self, full: int) -> int:
        """Return a number of rows at this scale."""
        return max(1000, int(full * self.scale))

    def repetitions(self, full: int) -> int:
        """Return a number of repetitions: all of them for full tables, few for a smoke test."""
        return full if self.scale >= 1 else max(2, min(full, int(full * self.scale * 5)))

    def seconds(self, full: int) -> int:
        """Return how many whole seconds something takes at this scale."""
        return max(1, round(full * min(self.scale, 1)))

    def connect_gateway(self) -> Client:
        """Open a connection to the gateway without resident tables."""
        return Client(self.gateway.address)

    def connect_resident_gateway(self) -> Client:
        """Open a connection to the gateway with its default settings."""
        return Client(self.resident_gateway.address)

    def connect_postgres(self) -> Client:
        """Open a connection to PostgreSQL."""
        return Client(self.postgres.address)

    def show_base(self, dataset: Dataset, view: str) -> None:
        """Let bare Spark read the very files of a compacted table under a name."""
        base = self._bases[dataset.table]
        schema = pq.read_schema(next(base.rglob("*.parquet")))
        stored = [name for name in schema.names if name not in BOOKKEEPING_COLUMNS]
        self.bare_spark.show(view, base, dict(zip(stored, COLUMN_NAMES, strict=True)))

    def processor_times(self, *servers: str) -> dict[str, ProcessorTime]:
        """Return the processor time servers have used so far."""
        ids = {
            GATEWAY: lambda: self.gateway.process_id,
            RESIDENT_GATEWAY: lambda: self.resident_gateway.process_id,
            POSTGRES: lambda: self.postgres.process_id,
            BARE_SPARK: lambda: self.bare_spark.process_id,
        }
        return {server: ProcessorTime.of(ids[server]()) for server in servers}

    def processor_fact(
        self, before: Mapping[str, ProcessorTime], count: Mapping[str, float], what: str
    ) -> str:
        """Tell how much processor time one of ``count`` operations took on each server."""
        after = self.processor_times(*before)
        used = (f"{name} {after[name].since(before[name]).per(count[name])}" for name in before)
        return f"Processor time per {what}: {'; '.join(used)}."

    def gateway_log(self) -> str:
        """Return the last lines of the log of the gateway that runs, none when none does."""
        running = (self.__dict__.get(name) for name in ("gateway", "resident_gateway"))
        return "".join(one.log_text() for one in running if isinstance(one, GatewayProcess))

    def loading(self, dataset: Dataset) -> str:
        """Tell how fast a table came into the gateway."""
        took = self._loadings[dataset.table]
        return (
            f"COPY of {dataset.rows:,} rows into the gateway: {took.copy_s:.1f} s "
            f"({dataset.rows / took.copy_s:,.0f} rows/s); VACUUM: {took.vacuum_s:.1f} s."
        )

    def _load(self, dataset: Dataset) -> Dataset:
        _say(f"loading {dataset.table}, {dataset.rows:,} rows")
        load_postgres(self.postgres.address, dataset)
        before = self._base_directories()
        took = load_gateway(self.postgres.address, self.gateway.address, dataset)
        made = self._base_directories() - before
        self._bases[dataset.table] = max(made, key=lambda path: path.stat().st_mtime)
        self._loadings[dataset.table] = took
        return dataset

    def _base_directories(self) -> set[Path]:
        warehouse = self.gateway.data_dir / "warehouse"
        return {path for path in warehouse.rglob("base-*") if path.is_dir()}


def _say(what: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {what}\n")
