"""Fixtures around one local Spark engine: an empty warehouse and tables in it for each test."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import py4j.java_gateway
import py4j.protocol
import pyarrow as pa
import pytest

from catalog.divisions import Division
from catalog.model import Column, JournalTable, Segment, SegmentKind, TableSnapshot
from pgwire_gateway.config import SparkApi
from pgwire_gateway.spark.compactor import Compactor
from pgwire_gateway.spark.engine import SparkEngine, SparkSettings
from pgwire_gateway.spark.executor import Batches, Executor, RunningStatement
from pgwire_gateway.spark.java_runtime import find_java_home
from pgwire_gateway.spark.relations import Relation, Relations
from pgwire_gateway.spark.warehouse import STAGING
from pgwire_gateway.spark.writer import SegmentWriter
from rewrite.results import Cut, Source, SourcePart, SparkQuery
from tests.support.java import JAVA_OPTIONS

TIMESTAMP = pa.timestamp("us", tz="UTC")
_NUMBERS = itertools.count(1000)


@pytest.fixture(scope="session")
def spark_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngine]:
    """Yield a running engine with two cores and little memory."""
    directory = tmp_path_factory.mktemp("spark")
    engine = SparkEngine(settings(directory))
    engine.start()
    yield engine
    engine.stop()


@pytest.fixture(scope="session")
def spark_relations(spark_engine: SparkEngine) -> Relations:
    """Return the relations of the engine, kept from test to test as in a gateway."""
    return Relations(spark_engine)


@pytest.fixture
def journal(spark_engine: SparkEngine, spark_relations: Relations) -> "Journal":
    """Return an empty journal of a table ``(id integer primary key, name text)``."""
    return Journal(spark_engine, spark_relations)


@pytest.fixture(autouse=True)
def own_py4j(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo what a pyspark session of other tests does to every Py4J connection of the process."""
    original = py4j.protocol.get_return_value
    monkeypatch.setattr(py4j.java_gateway, "get_return_value", original)


def settings(directory: Path, api: SparkApi = SparkApi.INTERNALS, **conf: str) -> SparkSettings:
    """Return settings for a small engine below a directory."""
    return SparkSettings(
        warehouse=str(directory / "warehouse"),
        runtime_directory=directory / "runtime",
        master="local[2]",
        conf={
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": JAVA_OPTIONS,
            **conf,
        },
        java_home=find_java_home(directory / "runtime"),
        api=api,
    )


ID = Column(1, "id", 23, -1, True, "id")
NAME = Column(2, "name", 25, -1, False, "name")


@dataclass
class Journal:
    """A journal without a catalog: the test says which segments and tail a snapshot has."""

    engine: SparkEngine
    relations: Relations
    columns: tuple[Column, ...] = (ID, NAME)
    key: tuple[int, ...] = (1,)
    relid: int = field(default_factory=lambda: next(_NUMBERS))
    segments: list[Segment] = field(default_factory=list)
    tail: pa.Table | None = None
    division: Division | None = None

    def __post_init__(self) -> None:
        self._staged_before = self._all_staged()

    def _all_staged(self) -> set[Path]:
        found = Path(self.engine.warehouse.root, STAGING).glob("*/*")
        return {path for path in found if path.is_dir()}

    def staged(self) -> set[Path]:
        """Return the directories of writes that have begun since, and not ended."""
        return self._all_staged() - self._staged_before

    @property
    def table(self) -> JournalTable:
        name = "t_pkey" if self.key else None
        return JournalTable(
            self.relid,
            "public",
            "t",
            self.columns,
            self.key,
            name,
            1,
            f"1/{self.relid}",
            division=self.division,
        )

    def snapshot(self) -> TableSnapshot:
        rows = self.tail.num_rows if self.tail is not None else 0
        state = f"s{next(_NUMBERS)}"
        return TableSnapshot(self.table, state, 1_000_000, tuple(self.segments), rows)

    def rows(self, *rows: Sequence[Any], version: int = 1) -> pa.RecordBatch:
        """Return row versions: the columns' values, then perhaps the subsequent version."""
        width = len(self.columns)
        data = {
            f"c{column.attnum}": pa.array([row[i] for row in rows], ARROW[column.type_oid])
            for i, column in enumerate(self.columns)
        }
        data["version_number"] = pa.array([version] * len(rows), TIMESTAMP)
        gone = [row[width] if len(row) > width else None for row in rows]
        data["subsequent_version_number"] = pa.array(gone, TIMESTAMP)
        if not self.key:
            data["row_identity"] = pa.array([row[-1] for row in rows], pa.int64())
            data["subsequent_version_number"] = pa.nulls(len(rows), TIMESTAMP)
        return pa.record_batch(data)

    def write(
        self, *batches: pa.RecordBatch, kind: SegmentKind = SegmentKind.DELTA
    ) -> Segment | None:
        """Write a segment and make it part of the journal."""
        writer = SegmentWriter(self.engine, self.table, kind)
        for batch in batches:
            writer.write(batch)
        segments = [
            replace(s, segment_id=next(_NUMBERS)) for s in writer.finish(RunningStatement())
        ]
        self.segments += segments
        return segments[0] if segments else None

    def append(self, batch: pa.RecordBatch) -> None:
        """Append to the tail."""
        added = pa.Table.from_batches([batch])
        self.tail = added if self.tail is None else pa.concat_tables([self.tail, added])

    def relation(self, source: Source, snapshot: TableSnapshot) -> Relation:
        """Return what a view of one part shows."""
        return Relation(source, snapshot, lambda: self.tail)

    def compactor(self) -> Compactor:
        return Compactor(self.engine, self.relations)

    def run(
        self,
        sql: str,
        part: SourcePart = SourcePart.JOURNAL,
        *,
        snapshot: TableSnapshot | None = None,
        row_bound: int | None = None,
        input_rows: int = 100,
        filters: bool = False,
        works_on_all: bool = False,
        sorts: bool = False,
        limit: tuple[int, int] | None = None,
        statement: RunningStatement | None = None,
    ) -> Batches:
        """Run a query over one part; ``$`` stands for its view, LIMIT and OFFSET come apart."""
        seen = snapshot or self.snapshot()
        source = Source(self.relid, part, f"global_temp.{part.value}_{self.relid}_{seen.state}")
        text = sql.replace("$", source.view)
        cut = None if limit is None else Cut(text, *limit)
        query = SparkQuery(
            text if cut is None else f"{text} LIMIT {cut.rows} OFFSET {cut.offset}",
            (),
            (source,),
            row_bound,
            input_rows,
            filters=filters,
            works_on_all=works_on_all,
            sorts=sorts,
            cut=cut,
        )
        return Executor(self.relations).run(
            query,
            relations=[self.relation(source, seen)],
            sessions=self.engine.sessions(),
            statement=statement or RunningStatement(),
        )

    def fetch(self, sql: str, part: SourcePart = SourcePart.JOURNAL, **options: Any) -> list[tuple]:
        """Return the rows of a query."""
        rows = self.run(sql, part, **options).read_all().to_pylist()
        return [tuple(row.values()) for row in rows]


ARROW = {
    16: pa.bool_(),
    20: pa.int64(),
    23: pa.int32(),
    25: pa.string(),
    1700: pa.string(),
}
