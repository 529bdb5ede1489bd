"""Bring the bookkeeping schema of a database up to date.

The numbered files of ``catalog/sql`` are applied in order, each once per database, all in one
transaction under an advisory lock, so that gateways starting together do not meet. A file that has
been applied must stay as it was: its digest is kept, and a database made by another text of it is
refused, as the functions in it would not be those this program calls.
"""

import functools
import hashlib
import re
from importlib import resources
from typing import Final

import psycopg

from catalog import sqlstate
from catalog.errors import GatewayError

_LOCK: Final = 0x70677769  # "pgwi"


def scripts() -> list[tuple[int, str, str]]:
    """Return number, name and text of every migration in order."""
    found = [
        (int(entry.name[:4]), entry.name, entry.read_text(encoding="utf-8"))
        for entry in resources.files("catalog").joinpath("sql").iterdir()
        if entry.name.endswith(".sql")
    ]
    return sorted(found)


@functools.cache
def own_functions() -> frozenset[str]:
    """Return the names of the bookkeeping's functions."""
    return frozenset(
        name
        for _, _, text in scripts()
        for name in re.findall(r"FUNCTION pg_journal\.(\w+)\(", text)
    )


def migrate(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    """Apply what is missing in the connection's database.

    Raises:
        GatewayError: 55000 when the database was migrated by a newer program, or by one with
            other migrations.
    """
    known = scripts()
    with connection.transaction():
        connection.execute("SET LOCAL client_min_messages = warning")
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        # Tools leave schemas of this prefix out: dumps, lists of schemas and tables.
        connection.execute("SET LOCAL allow_system_table_mods = on")
        connection.execute("CREATE SCHEMA IF NOT EXISTS pg_journal")
        connection.execute("SET LOCAL search_path = pg_catalog, pg_journal, pg_temp")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS pg_journal.migrations ("
            " number int PRIMARY KEY, name text NOT NULL,"
            " applied_at timestamptz NOT NULL DEFAULT now())"
        )
        connection.execute("ALTER TABLE pg_journal.migrations ADD COLUMN IF NOT EXISTS digest text")
        rows = connection.execute("SELECT number, digest FROM pg_journal.migrations").fetchall()
        applied = {int(str(number)): digest for number, digest in rows}
        if newer := applied.keys() - {number for number, _, _ in known}:
            raise GatewayError(
                f"the bookkeeping of this database is of a newer version (migration {max(newer)})",
                sqlstate=sqlstate.OBJECT_NOT_IN_PREREQUISITE_STATE,
                hint="Use the gateway that wrote it, or a newer one.",
            )
        for number, name, text in known:
            digest = hashlib.sha256(text.encode()).hexdigest()
            if number not in applied:
                connection.execute(text.encode())
                connection.execute(
                    "INSERT INTO pg_journal.migrations (number, name, digest) VALUES (%s, %s, %s)",
                    [number, name, digest],
                )
            elif applied[number] != digest:
                raise GatewayError(
                    f"the bookkeeping of this database has another form of migration {number}",
                    sqlstate=sqlstate.OBJECT_NOT_IN_PREREQUISITE_STATE,
                    hint="Use the gateway that wrote it, or copy its tables to a new directory.",
                )


def require_bytewise_order(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    """Refuse a database whose text is not ordered by its bytes, as Spark orders it.

    Raises:
        GatewayError: 0A000.
    """
    row = connection.execute(
        "SELECT pg_encoding_to_char(encoding) = 'UTF8' AND ("
        "    datlocprovider = 'c' AND datcollate IN ('C', 'POSIX', 'C.UTF-8', 'C.utf8')"
        " OR datlocprovider = 'b') FROM pg_database WHERE datname = current_database()"
    ).fetchone()
    if row != (True,):
        raise GatewayError(
            "journals need a database with encoding UTF8 and a locale ordered by bytes",
            sqlstate=sqlstate.FEATURE_NOT_SUPPORTED,
            hint="Create the database with LOCALE_PROVIDER builtin BUILTIN_LOCALE 'C.UTF-8'"
            " TEMPLATE template0.",
        )
