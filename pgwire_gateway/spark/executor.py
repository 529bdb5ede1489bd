"""Run compiled queries on Spark and hand out their rows as Arrow batches, cancellably."""

from collections.abc import Iterable, Iterator
from typing import Self

import pyarrow as pa

from pgwire_gateway.spark.engine import Sessions
from pgwire_gateway.spark.relations import Relation, Relations
from rewrite.results import SparkQuery


class RunningStatement:
    """One statement of a session, as seen by those who may cancel it."""

    def cancel(self, message: str = "canceling statement due to user request") -> None:
        """Cancel it, whether it has not started, runs, or is over; callable from any thread."""
        raise NotImplementedError

    def check(self) -> None:
        """Raise QueryCanceledError (57014) when it was cancelled."""
        raise NotImplementedError


class Batches:
    """Iterator over the record batches of a result; closing it early cancels the work."""

    schema: pa.Schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        raise NotImplementedError

    def __enter__(self) -> Self:
        raise NotImplementedError

    def __exit__(self, *_: object) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Release everything; cancels what still runs."""
        raise NotImplementedError


class Executor:
    """Runs compiled queries."""

    def __init__(self, relations: Relations) -> None:
        self._relations = relations

    def run(
        self,
        query: SparkQuery,
        *,
        relations: Iterable[Relation],
        sessions: Sessions,
        statement: RunningStatement,
    ) -> Batches:
        """Start a query."""
        raise NotImplementedError
