"""Bring the bookkeeping schema of a database up to date.

What holds data is migrated: the numbered files of ``catalog/sql/tables`` are applied in order, each
once per database. One that has been applied must stay as it was: its digest is kept, and a database
made by another text of it is refused. What holds none is replaced: the files of
``catalog/sql/functions`` are applied as a whole wherever their digest is another than the one that
is noted. All of that is one transaction that has locked a row of PostgreSQL's own, so that gateways
starting together do not meet; where nothing has changed it is one query.

Gateways with other functions cannot share a database at the same time. While one of them has
sessions there, another one is refused; the key that proves calls is drawn anew with the functions,
so that one that comes back later finds out.
"""

import functools
import hashlib
import re
import time
from importlib import resources
from typing import Final

import psycopg
from psycopg import errors

from catalog.errors import GatewayError
from catalog.pg import sqlstate

_SQL: Final = resources.files("catalog").joinpath("sql")

_TAKE_TURN: Final = "SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'pg_catalog' FOR UPDATE"
"""Waits for others that bring the database up to date, for as long as they take.

The row is there before the bookkeeping is, and no role can lock it: that takes a right to change
the system's catalogs. Advisory locks are anybody's, and a lock on a table would wait for an ANALYZE
of the database's owner, which keeps its own until the transaction ends.
"""

SUBJECTS: Final = (
    "layout",
    "bookkeeping",
    "journals",
    "definitions",
    "reading",
    "writing",
    "lists",
    "proof",
    "capture",
    "residency",
    "thawing",
    "hot_keys",
    "maintenance",
    "references",
    "commits",
    "conversions",
    "parents",
    "external_journals",
    "computed_keys",
    "partitions",
    "deferred_keys",
    "divisions",
    "privileges",
)
"""Files of functions in the order in which they are applied: bodies in SQL name what is there."""

_FUNCTIONS: Final = 0
"""Stands for the functions where the numbers of migrations are noted."""

_DEPARTURE_S: Final = 5.0
"""How long sessions of another gateway may take that has just been stopped."""

_PATIENCE_S: Final = 10.0
"""How long locks on tables are waited for: a prepared transaction may never let them go."""

_OTHERS: Final = (
    "SELECT FROM pg_journal.series s JOIN pg_stat_get_activity(NULL) a"
    " ON a.pid = s.backend AND a.backend_start = s.backend_start"
    " WHERE a.datid = (SELECT oid FROM pg_database WHERE datname = current_database())"
)

_COPIED: Final = (
    "SELECT FROM pg_journal.instance i JOIN pg_database d ON d.datname = current_database()"
    " WHERE i.database_oid <> d.oid AND EXISTS (SELECT FROM pg_journal.journals)"
)

_ELSEWHERE: Final = (
    "SELECT FROM pg_journal.instance i"
    " WHERE i.warehouse <> %s AND EXISTS (SELECT FROM pg_journal.journals)"
)

_NOTE_WAREHOUSE: Final = (
    "UPDATE pg_journal.instance SET warehouse = %s WHERE warehouse IS DISTINCT FROM %s"
)

_NOTE_OWN: Final = (
    "UPDATE pg_journal.instance i SET database_oid = d.oid FROM pg_database d"
    " WHERE d.datname = current_database() AND i.database_oid <> d.oid"
)


def scripts() -> list[tuple[int, str, str]]:
    """Return number, name and text of every migration in order."""
    names = sorted(
        entry.name for entry in _SQL.joinpath("tables").iterdir() if entry.name.endswith(".sql")
    )
    return [(int(name[:4]), name, _text(f"tables/{name}")) for name in names]


def function_scripts() -> list[tuple[str, str]]:
    """Return subject and text of every file of functions in the order of their application."""
    return [(subject, _text(f"functions/{subject}.sql")) for subject in SUBJECTS]


@functools.cache
def own_functions() -> frozenset[str]:
    """Return the names of the bookkeeping's functions."""
    return frozenset(
        name
        for _, text in function_scripts()
        for name in re.findall(r"FUNCTION pg_journal\.(\w+)\(", text)
    )


def functions_digest(server_version: int) -> str:
    """Return what tells whether a database has these functions and views.

    Args:
        server_version: As libpq numbers it. Some views have the columns that the server's have.
    """
    found = hashlib.sha256(str(server_version // 10000).encode())
    texts = [text for _, text in function_scripts()]
    for text in (_text("retirement.sql"), *texts, _text("renewal.sql")):
        found.update(hashlib.sha256(text.encode()).digest())
    return found.hexdigest()


def migrate(connection: psycopg.Connection[tuple[object, ...]]) -> str:
    """Apply what is missing in the connection's database; return what calls are proved by.

    Raises:
        GatewayError: 55000 when the database was migrated by a newer program, or by one with
            other migrations; when functions are to be replaced, and sessions of a gateway with
            other ones are open there, objects of users depend on what is no more, or tables stay
            locked.
    """
    noted, key = _noted(connection)
    if not _is_up_to_date(connection, noted):
        try:
            with connection.transaction():
                _update(connection)
                _, key = _noted(connection)
        except (
            errors.DependentObjectsStillExist,
            errors.InvalidFunctionDefinition,
            errors.InvalidTableDefinition,
        ) as error:
            raise GatewayError(
                f"the bookkeeping cannot be brought up to date: {error.diag.message_primary}",
                sqlstate=sqlstate.OBJECT_NOT_IN_PREREQUISITE_STATE,
                hint="Drop what depends on it by the gateway that wrote the database.",
            ) from error
        except (errors.LockNotAvailable, errors.OutOfMemory) as error:
            # An external catalog may have room for too few locks; PostgreSQL says what to do.
            hint = "End other sessions of the catalog, and transactions that are prepared."
            raise GatewayError(
                f"the bookkeeping cannot be brought up to date: {error.diag.message_primary}",
                sqlstate=sqlstate.OBJECT_NOT_IN_PREREQUISITE_STATE,
                hint=error.diag.message_hint or hint,
            ) from error
    return key


@functools.cache
def _text(path: str) -> str:
    return _SQL.joinpath(path).read_text(encoding="utf-8")


def _noted(
    connection: psycopg.Connection[tuple[object, ...]],
) -> tuple[dict[int, str | None], str]:
    """Return the digests of what has been applied, and the key of that moment."""
    try:
        rows = connection.execute(
            "SELECT m.number, m.digest, i.secret_key"
            " FROM pg_journal.migrations m CROSS JOIN pg_journal.instance i"
        ).fetchall()
    except (errors.UndefinedTable, errors.InvalidSchemaName):
        return {}, ""
    noted = {
        int(str(number)): None if digest is None else str(digest) for number, digest, _ in rows
    }
    return noted, str(rows[0][2]) if rows else ""


def _is_up_to_date(
    connection: psycopg.Connection[tuple[object, ...]], noted: dict[int, str | None]
) -> bool:
    """Return whether nothing is to be applied; refuse what this program cannot update."""
    known = {number: _digest(text) for number, _, text in scripts()}
    for number, digest in known.items():
        if number in noted and noted[number] != digest:
            raise GatewayError(
                f"the bookkeeping of this database has another form of migration {number}",
                sqlstate=sqlstate.OBJECT_NOT_IN_PREREQUISITE_STATE,
                hint="Use the gateway that wrote it, or copy its tables to a new directory.",
            )
    if newer := noted.keys() - known.keys() - {_FUNCTIONS}:
        raise GatewayError(
            f"the bookkeeping of this database is of a newer version (migration {max(newer)})",
            sqlstate=sqlstate.OBJECT_NOT_IN_PREREQUISITE_STATE,
            hint="Use the gateway that wrote it, or a newer one.",
        )
    digest = functions_digest(connection.info.server_version)
    return noted == {**known, _FUNCTIONS: digest}


def _update(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    """Apply what is missing, in a transaction of the caller's."""
    connection.execute("SET LOCAL client_min_messages = warning")
    # What is done here is no definition of a user's, and functions may be earlier ones.
    connection.execute("SET LOCAL event_triggers = off")
    connection.execute(_TAKE_TURN)
    connection.execute(
        "SELECT set_config('lock_timeout', %s, true)", [f"{round(_PATIENCE_S * 1000)}ms"]
    )
    # Tools leave schemas of this prefix out: dumps, lists of schemas and tables.
    connection.execute("SET LOCAL allow_system_table_mods = on")
    connection.execute("CREATE SCHEMA IF NOT EXISTS pg_journal")
    connection.execute("SET LOCAL search_path = pg_catalog, pg_journal, pg_temp")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS pg_journal.migrations ("
        " number int PRIMARY KEY, name text NOT NULL,"
        " applied_at timestamptz NOT NULL DEFAULT now(), digest text)"
    )
    rows = connection.execute("SELECT number, digest FROM pg_journal.migrations").fetchall()
    noted = {int(str(number)): None if digest is None else str(digest) for number, digest in rows}
    # Another gateway may have done it meanwhile.
    if _is_up_to_date(connection, noted):
        return
    if _FUNCTIONS in noted:
        _require_alone(connection)
    for number, name, text in scripts():
        if number not in noted:
            connection.execute(text.encode())
            _note(connection, number, name, _digest(text))
    if _FUNCTIONS in noted:
        connection.execute(
            "SELECT set_config('pg_journal.kept', %s, true)", [" ".join(sorted(own_functions()))]
        )
        connection.execute(_text("retirement.sql").encode())
    for _, text in function_scripts():
        connection.execute(text.encode())
    connection.execute(_text("renewal.sql").encode())
    digest = functions_digest(connection.info.server_version)
    _note(connection, _FUNCTIONS, "functions", digest)


def _require_alone(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    """Keep sessions from beginning, and wait for those that are just ending."""
    connection.execute("LOCK TABLE pg_journal.series IN SHARE ROW EXCLUSIVE MODE")
    deadline = time.monotonic() + _DEPARTURE_S
    while connection.execute(_OTHERS).rowcount:
        if time.monotonic() > deadline:
            raise GatewayError(
                "a gateway of another version has sessions in this database",
                sqlstate=sqlstate.OBJECT_NOT_IN_PREREQUISITE_STATE,
                hint="Stop it first: gateways that share a catalog have to be of one version.",
            )
        connection.execute("SELECT pg_stat_clear_snapshot(), pg_sleep(0.05)")


def _note(
    connection: psycopg.Connection[tuple[object, ...]], number: int, name: str, digest: str
) -> None:
    connection.execute(
        "INSERT INTO pg_journal.migrations (number, name, digest) VALUES (%s, %s, %s)"
        " ON CONFLICT (number) DO UPDATE"
        " SET name = excluded.name, digest = excluded.digest, applied_at = now()",
        [number, name, digest],
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


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


def require_original(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    """Refuse a database that is a copy of another one, whose data files it would take for its own.

    One that was copied without tables is a database by itself.

    Raises:
        GatewayError: 55000.
    """
    if connection.execute(_COPIED).rowcount:
        raise GatewayError(
            "this database is a copy of another one, whose data files are not its own",
            sqlstate=sqlstate.OBJECT_NOT_IN_PREREQUISITE_STATE,
            hint="Drop it, and copy tables by pg_dump through the gateway.",
        )
    connection.execute(_NOTE_OWN)


def require_own_files(connection: psycopg.Connection[tuple[object, ...]], warehouse: str) -> None:
    """Refuse a database whose data files are in another warehouse; note it where there are none.

    Two gateways would each flush rows to where the other cannot read them.

    Raises:
        GatewayError: 55000.
    """
    if connection.execute(_ELSEWHERE, [warehouse]).rowcount:
        raise GatewayError(
            "the data files of this database are in the data directory of another gateway",
            sqlstate=sqlstate.OBJECT_NOT_IN_PREREQUISITE_STATE,
            hint="Start the gateway with that --data-dir.",
        )
    connection.execute(_NOTE_WAREHOUSE, [warehouse, warehouse])
