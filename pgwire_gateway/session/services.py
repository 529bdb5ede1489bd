"""What all sessions of a gateway share."""

from dataclasses import dataclass

from catalog.api import Catalog
from pgwire_gateway.config import Config
from pgwire_gateway.spark.compactor import Compactor
from pgwire_gateway.spark.engine import SparkEngine
from pgwire_gateway.spark.executor import Executor
from pgwire_gateway.spark.lookups import Lookups
from pgwire_gateway.spark.recent_rows import RecentRows
from pgwire_gateway.spark.relations import Relations
from pgwire_gateway.spark.warehouse import Warehouse
from pgwire_gateway.spark.zone_rules import ZoneRules
from pgwire_gateway.upkeep.flusher import Flusher
from pgwire_gateway.wire_types.tails import TailCache


@dataclass(frozen=True, slots=True)
class Services:
    """Brain and muscle, and what is cached between them."""

    config: Config
    catalog: Catalog
    engine: SparkEngine
    relations: Relations
    executor: Executor
    compactor: Compactor
    lookups: Lookups
    warehouse: Warehouse
    tails: TailCache
    recent_rows: RecentRows
    flusher: Flusher
    zone_rules: ZoneRules
    time_zones: str | None = None
    """Time zone database of the catalog, where it is at hand; else the system's is used."""

    def forget(self) -> None:
        """Forget what was read from a catalog server that has ended."""
        self.flusher.forget()
        self.tails.clear()
        self.recent_rows.clear()
