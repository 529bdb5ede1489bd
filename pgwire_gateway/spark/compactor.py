"""Flush tails to deltas and merge a journal into a new base and archive."""

from dataclasses import dataclass

import pyarrow as pa

from catalog.model import Segment, TableSnapshot
from pgwire_gateway.spark.engine import SparkEngine
from pgwire_gateway.spark.executor import RunningStatement
from pgwire_gateway.spark.relations import Relations


@dataclass(frozen=True, slots=True)
class Compaction:
    """Segments that replace others."""

    added: tuple[Segment, ...]
    retired: tuple[int, ...]
    """segment_id of what `added` replaces."""
    tail_version: int
    """Tail rows up to this version number are contained in `added`."""


class Compactor:
    """Produces the segments of a compaction or flush; publishing them is the catalog's."""

    def __init__(self, engine: SparkEngine, relations: Relations) -> None:
        self._engine = engine
        self._relations = relations

    def compact(
        self, snapshot: TableSnapshot, tail: pa.Table | None, statement: RunningStatement
    ) -> Compaction:
        """Merge base, deltas and tail into a new base, moving superseded versions to an archive."""
        raise NotImplementedError

    def flush(
        self, snapshot: TableSnapshot, tail: pa.Table, statement: RunningStatement
    ) -> Compaction:
        """Write the tail as a delta."""
        raise NotImplementedError
