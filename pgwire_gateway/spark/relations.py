"""Global temp views over base, deltas, tail and archive, under the names compiled SQL refers to."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import pyarrow as pa

from catalog.model import TableSnapshot
from pgwire_gateway.spark.engine import SparkEngine
from rewrite.results import Source


@dataclass(frozen=True, slots=True)
class Relation:
    """A view compiled SQL needs, and the state of the table it shows."""

    source: Source
    snapshot: TableSnapshot
    tail: Callable[[], pa.Table | None]
    """Yields the tail in storage types; called only when the view does not exist yet."""


class Relations:
    """Registers views, once per state of a table, and drops superseded ones."""

    def __init__(self, engine: SparkEngine) -> None:
        self._engine = engine

    def lease(self, relations: Iterable[Relation]) -> AbstractContextManager[None]:
        """Make the views exist while the context lasts (analysis of a query needs no longer)."""
        raise NotImplementedError
