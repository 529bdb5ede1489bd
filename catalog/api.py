"""The one object the gateway holds: opens the catalog and its sessions."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from catalog.connections import CatalogSession


@dataclass(frozen=True, slots=True)
class CatalogConfig:
    """Where the catalog's PostgreSQL is."""

    data_dir: Path | None = None
    """Directory of the embedded server; its data are in ``<data_dir>/catalog``."""
    url: str | None = None
    """Connection string of an external server's administrator; excludes ``data_dir``."""


class Catalog:
    """The catalog's PostgreSQL: embedded in `data_dir`, or external."""

    @classmethod
    def open(cls, config: CatalogConfig) -> "Catalog":
        """Start or reach the server and bring the bookkeeping of its databases up to date on first use."""
        raise NotImplementedError

    def database_exists(self, database: str) -> bool:
        raise NotImplementedError

    def connect(
        self,
        user: str,
        database: str,
        settings: Mapping[str, str] | None = None,
        *,
        options: str | None = None,
        application_name: str | None = None,
    ) -> CatalogSession:
        """Open the client's session; CatalogError with 28000, 3D000 … exactly as PostgreSQL reports them."""
        raise NotImplementedError

    def admin(self, database: str) -> CatalogSession:
        """Open a session with administrator rights, for flush, compaction and vacuum."""
        raise NotImplementedError

    def close(self) -> None:
        """Close what is open and stop an embedded server."""
        raise NotImplementedError
