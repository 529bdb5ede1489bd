"""Catalogs that are copied instead of being made: by initdb, and by scripts for each database.

Both take half a second of a processor, for each gateway and for each database. What is copied is
the catalog of a gateway that has stopped; its database ``template1`` has bookkeeping, too, so that
it goes into each database that CREATE DATABASE makes. Tests of what a new data directory becomes
start their gateways without.
"""

import atexit
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

import psycopg

from catalog import api
from catalog.api import MAINTENANCE_DATABASE, Catalog, CatalogConfig
from catalog.server import migrations

CATALOG = "catalog"
"""Name of an embedded server's directory in the data directory of its gateway."""


def prepare(data_dir: Path) -> None:
    """Put a catalog into a data directory, unless there is one."""
    if not (data_dir / CATALOG).exists():
        data_dir.mkdir(parents=True, exist_ok=True)
        # It belongs to the account that the server runs as.
        subprocess.run(["cp", "-a", _original(), data_dir / CATALOG], check=True)  # noqa: S607


@functools.cache
def _original() -> Path:
    """Return the catalog that others are copies of, which this process makes once."""
    # Not below pytest's directory: each run of pytest as root shuts it to the server's account.
    directory = Path(tempfile.mkdtemp(prefix="prepared-catalog-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    catalog = Catalog.open(CatalogConfig(data_dir=directory))
    try:
        for database in (MAINTENANCE_DATABASE, "template1"):
            catalog.admin(database).close()
    finally:
        catalog.close()
    return directory / CATALOG


def draw_keys() -> None:
    """Let each database of this process's catalogs have a key of its own, as where none is copied.

    Nobody then takes a database for the one of its name that was there before.
    """
    api.migrate = _migrate_and_draw  # type: ignore[attr-defined]


def _migrate_and_draw(connection: "psycopg.Connection[tuple[object, ...]]") -> str:
    key = migrations.migrate(connection)
    with connection.transaction():
        copied = connection.execute(
            "UPDATE pg_journal.instance i SET database_oid = d.oid FROM pg_database d"
            " WHERE d.datname = current_database() AND i.database_oid <> d.oid"
        )
        if not copied.rowcount:
            return key
        connection.execute("SELECT pg_journal.renew_key()")
        ((drawn,),) = connection.execute("SELECT secret_key FROM pg_journal.instance").fetchall()
    return str(drawn)
