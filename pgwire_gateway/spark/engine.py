"""The one Spark driver of a gateway: its JVM, its settings and the sessions clients share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """What an operator decides about Spark."""

    warehouse: str
    """Directory or URI under which all segments live."""
    runtime_directory: Path
    """Local directory for logs, scratch files and the Java launcher."""
    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict)
    """Spark settings that override ours."""
    java_home: Path | None = None


@dataclass(frozen=True, slots=True)
class Sessions:
    """The Spark sessions of one time zone, shared by the clients that use it."""

    time_zone: str
    small: SparkSession
    """For statements that touch few rows: one task, interpreted expressions."""
    large: SparkSession
    """For everything else: generated code, adaptive execution."""


class SparkEngine:
    """Starts the JVM once, restarts it when it died, hands out sessions."""

    def __init__(self, settings: SparkSettings) -> None:
        self.settings = settings
        self.generation = 0

    def start(self) -> None:
        """Start the JVM and the Spark context."""
        raise NotImplementedError

    def stop(self) -> None:
        """Stop Spark and end the JVM."""
        raise NotImplementedError

    def sessions(self, time_zone: str) -> Sessions:
        """Return the sessions of a time zone (restarts a dead JVM)."""
        raise NotImplementedError
