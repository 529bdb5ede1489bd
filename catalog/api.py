"""The one object the gateway holds: opens the catalog and its sessions."""

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from catalog.bookkeeping import call_codes
from catalog.bookkeeping.call_codes import CallCodes
from catalog.bookkeeping.snapshots import KnownState
from catalog.connection.backend import Backend
from catalog.connection.session_settings import ADMINISTRATOR, EVERYWHERE
from catalog.errors import CatalogError, CatalogUnavailableError, GatewayError
from catalog.hot.code_gate import CodeGate
from catalog.hot.thawing import Thawing
from catalog.pg import sqlstate
from catalog.server.closing import finish
from catalog.server.embedded import SUPERUSER, EmbeddedServer
from catalog.server.keeper import Keeper
from catalog.server.login import connect, options_of
from catalog.server.migrations import (
    migrate,
    require_bytewise_order,
    require_original,
    require_own_files,
)
from catalog.server.roles import Role, bootstrap, find_role, has_passwords, system_identifier
from catalog.session.connections import CatalogSession

MAINTENANCE_DATABASE = "postgres"

_MISSING_BOOKKEEPING = frozenset({"3F000", "42883", "42501", "42P01", "XX000"})
"""What the first call meets in a database that was dropped and created again."""

_PASSING = frozenset(
    {
        sqlstate.CANNOT_CONNECT_NOW,
        sqlstate.CONNECTION_FAILURE,
        sqlstate.ADMIN_SHUTDOWN,
        sqlstate.CRASH_SHUTDOWN,
    }
)
"""What a new client meets while the server is started again."""

RESTART_S: Final = 15.0
"""How long new clients wait for an embedded server that is being started again."""

_RETRY_S: Final = 0.1

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ResidentBounds:
    """How large tables may be that PostgreSQL answers for; without rows there are none."""

    rows: int = 0
    bytes: int = 64 << 20
    hard_rows: int = 1_000_000


@dataclass(frozen=True, slots=True)
class CatalogConfig:
    """Where the catalog's PostgreSQL is."""

    data_dir: Path | None = None
    """Directory of the embedded server; its data are in ``<data_dir>/catalog``."""
    url: str | None = None
    """Connection string of an external server's administrator; excludes ``data_dir``."""
    bounds: ResidentBounds = ResidentBounds()
    """How large resident tables may be."""
    warehouse: str | None = None
    """What no other directory of data files has, for an external server, which may be given to
    gateways with others."""


@dataclass(slots=True)
class _Database:
    """What is known of one database since its bookkeeping was found up to date."""

    secret_key: str
    thawing: Thawing
    code_gate: CodeGate
    known: KnownState = field(default_factory=KnownState)

    def close(self) -> None:
        """Close connections that are kept for later."""
        self.thawing.close()
        self.code_gate.close()


class Catalog:
    """The catalog's PostgreSQL: embedded in a directory, or external."""

    def __init__(
        self,
        parameters: Mapping[str, str],
        server: EmbeddedServer | None,
        bounds: ResidentBounds = ResidentBounds(),
        warehouse: str | None = None,
    ) -> None:
        self._parameters = dict(parameters)
        self.bounds = bounds
        self._warehouse = warehouse
        self._server = server
        self._closing = threading.Event()
        self._names: set[str] = set()
        self._databases: dict[str, _Database] = {}
        self._lock = threading.RLock()
        self._maintenance: psycopg.Connection[tuple[object, ...]] | None = None
        self._maintenance_lock = threading.Lock()
        self.on_restart: Callable[[], None] = _nothing
        """Told when the embedded server has ended by itself, and when it runs again.

        What was committed without waiting for it to be durable may not be there any more, and
        numbers it had been given may be given anew.
        """
        self._keeper = Keeper(server, self._restarted) if server is not None else None

    @classmethod
    def open(cls, config: CatalogConfig) -> "Catalog":
        """Start or reach the server; a database's bookkeeping is brought up to date on first use.

        Raises:
            GatewayError: 55000 when the directory is in use, or the external server is too old.
            CatalogUnavailableError: when the server cannot be started or reached.
        """
        for name in ("PGTZ", "PGDATESTYLE", "PGGEQO"):
            # libpq would send them in every session's name.
            os.environ.pop(name, None)
        if config.url is not None:
            return cls._open_external(config.url, config)
        if config.data_dir is None:
            raise GatewayError("neither a data directory nor a catalog URL is given")
        server = EmbeddedServer(config.data_dir)
        server.start()
        parameters = {"host": server.host, "port": str(server.port), "user": SUPERUSER}
        catalog = cls(parameters, server, config.bounds)
        try:
            with catalog._administrator(MAINTENANCE_DATABASE) as administrator:
                bootstrap(administrator)
        except BaseException:
            catalog.close()
            raise
        return catalog

    @classmethod
    def _open_external(cls, url: str, config: CatalogConfig) -> "Catalog":
        parameters = {name: str(value) for name, value in conninfo_to_dict(url).items()}
        database = parameters.pop("dbname", MAINTENANCE_DATABASE)
        catalog = cls(parameters, None, config.bounds, config.warehouse)
        with catalog._administrator(database) as administrator:
            if administrator.info.server_version < 170000:
                raise GatewayError(
                    "the catalog needs PostgreSQL 17 or newer",
                    sqlstate=sqlstate.OBJECT_NOT_IN_PREREQUISITE_STATE,
                )
        return catalog

    @property
    def server(self) -> EmbeddedServer | None:
        """The embedded server, None when the catalog is external."""
        return self._server

    # roles and databases --------------------------------------------------------------------------

    def role(self, name: str) -> Role | None:
        """Return what authentication needs of a role; None for unknown ones and our own."""
        return self._patiently(lambda: self._role(name))

    def _role(self, name: str) -> Role | None:
        with self._maintaining() as administrator:
            return find_role(administrator, name)

    def has_passwords(self) -> bool:
        """Return whether a role could prove that it is one."""
        with self._maintaining() as administrator:
            return has_passwords(administrator)

    def mock_secret(self) -> bytes:
        """Return what makes roles without a password look like others."""
        return self.system_identifier().encode()

    def system_identifier(self) -> str:
        """Return what no other cluster of databases has."""
        with self._maintaining() as administrator:
            return system_identifier(administrator)

    # sessions -------------------------------------------------------------------------------------

    def connect(  # noqa: PLR0913 — as many as a StartupMessage has
        self,
        user: str,
        database: str,
        settings: Mapping[str, str] | None = None,
        *,
        options: str | None = None,
        application_name: str | None = None,
        credentials: Mapping[str, str] | None = None,
    ) -> CatalogSession:
        """Open the client's session.

        `settings` and `options` are those of the client's StartupMessage; `credentials` are libpq
        parameters that log in to an external catalog as the client's role.

        Raises:
            CatalogError: 28000, 3D000 … exactly as PostgreSQL reports them.
        """
        role = self.role(user)
        if role is None:
            raise _fatal(f'role "{user}" does not exist')
        if role.superuser:
            raise _fatal(f'role "{user}" is a superuser and cannot log in through the gateway')
        parameters = {
            **self._parameters,
            "user": user,
            "dbname": database,
            "client_encoding": "UTF8",
            **(credentials or {}),
        }
        if application_name is not None:
            parameters["application_name"] = application_name
        wanted = {**EVERYWHERE, **(settings or {})}
        for name in list(wanted):
            if name.lower() in {"application_name", "client_encoding"}:
                parameters[name.lower()] = wanted.pop(name)
        parameters["options"] = " ".join(filter(None, [options, options_of(wanted)]))
        return self._patiently(lambda: self._session(parameters))

    def admin(self, database: str) -> CatalogSession:
        """Open a session with administrator rights, for flush, compaction and vacuum."""
        return self._session(
            {
                **self._parameters,
                "dbname": database,
                "client_encoding": "UTF8",
                "application_name": "pgwire_gateway",
                "options": self._administrators_options(),
            }
        )

    def thawing(self, database: str) -> Thawing:
        """Return what makes keys of this database hot."""
        return self._database(database).thawing

    def code_gate(self, database: str) -> CodeGate:
        """Return what keeps tables of this database from becoming tiered while code runs."""
        return self._database(database).code_gate

    def release(self) -> None:
        """Close connections that are kept for later."""
        with self._lock:
            databases = list(self._databases.values())
        for database in databases:
            database.close()

    def adopted(self) -> tuple[str, ...]:
        """Return the databases used since the start."""
        with self._lock:
            return tuple(self._names)

    def forget(self, database: str) -> None:
        """Forget a database that is gone."""
        with self._lock:
            self._names.discard(database)
            known = self._databases.pop(database, None)
        if known is not None:
            known.close()

    def databases(self) -> tuple[str, ...]:
        """Return the databases that have bookkeeping, for background tasks to visit."""
        with self._administrator(MAINTENANCE_DATABASE) as administrator:
            rows = administrator.execute(
                "SELECT datname FROM pg_database"
                " WHERE datallowconn AND NOT datistemplate ORDER BY 1"
            ).fetchall()
        return tuple(str(row[0]) for row in rows)

    def close(self) -> None:
        """Stop an embedded server, which ends every session."""
        self._closing.set()
        self._close_maintenance()
        self.release()
        if self._keeper is not None:
            self._keeper.stop()

    # ----------------------------------------------------------------------------------------------

    def _patiently(self, attempt: Callable[[], _T]) -> _T:
        """Do what a new client waits for, again while the embedded server is started again."""
        deadline = time.monotonic() + RESTART_S
        while True:
            try:
                return attempt()
            except GatewayError as error:
                is_short = error.sqlstate in _PASSING and self._server is not None
                if not is_short or self._closing.is_set() or time.monotonic() > deadline:
                    raise
            self._closing.wait(_RETRY_S)

    def _restarted(self) -> None:
        """Forget what was learnt from a server that has ended."""
        self.release()
        with self._lock:
            self._databases.clear()
        self.on_restart()

    def _session(self, parameters: Mapping[str, str]) -> CatalogSession:
        backend = Backend(connect(parameters))
        name = parameters["dbname"]
        try:
            try:
                return self._adopted(backend, name)
            except CatalogError as error:
                if error.sqlstate not in _MISSING_BOOKKEEPING:
                    raise
            # The database was dropped and created again since it was adopted, or another gateway
            # has made its functions anew: that is done where nobody has a session.
            backend.close()
            with self._lock:
                self._databases.pop(name, None)
            backend = Backend(connect(parameters))
            return self._adopted(backend, name)
        except BaseException:
            backend.close()
            raise

    def _adopted(self, backend: Backend, name: str) -> CatalogSession:
        database = self._database(name)
        session = CatalogSession(
            backend,
            self._codes(backend, name, database.secret_key),
            database.known,
            has_resident_tables=self.bounds.rows > 0,
            is_unseen=database.thawing.is_unseen,
        )
        # The first call is before any statement: codes of earlier sessions are good for nothing.
        session.observations.definitions()
        return session

    def _codes(self, backend: Backend, name: str, secret_key: str) -> CallCodes:
        """Return the codes of a session's calls; what numbers them is made where it is missing."""
        while True:
            codes = call_codes.take(backend, secret_key.encode())
            if codes is not None:
                return codes
            administrator = self._administrator(name)
            try:
                administrator.execute("SELECT pg_journal.add_series()")
            finally:
                finish(administrator.pgconn)

    def _database(self, name: str) -> _Database:
        database = self._databases.get(name)
        if database is None:
            with self._lock:
                database = self._databases.get(name)
                if database is None:
                    database = self._databases[name] = self._adopt(name)
                    self._names.add(name)
        return database

    def _adopt(self, name: str) -> _Database:
        """Bring a database's bookkeeping up to date and read its key."""
        administrator = self._administrator(name)
        try:
            require_bytewise_order(administrator)
            secret_key = migrate(administrator)
            require_original(administrator)
            if self._warehouse is not None:
                require_own_files(administrator, self._warehouse)
            administrator.execute(
                "SELECT pg_journal.configure(%s, %s, %s)",
                [self.bounds.rows, self.bounds.bytes, self.bounds.hard_rows],
            )
        finally:
            finish(administrator.pgconn)

        def connect() -> CatalogSession:
            return self.admin(name)

        return _Database(secret_key, Thawing(connect), CodeGate(connect))

    def _close_maintenance(self) -> None:
        with self._maintenance_lock:
            if self._maintenance is not None:
                self._maintenance.close()
                self._maintenance = None

    @contextmanager
    def _maintaining(self) -> "Iterator[psycopg.Connection[tuple[object, ...]]]":
        """Lend the connection that is kept open for questions about roles and databases."""
        with self._maintenance_lock:
            if self._maintenance is None or self._maintenance.closed:
                self._maintenance = self._administrator(MAINTENANCE_DATABASE)
            try:
                yield self._maintenance
            except psycopg.OperationalError as error:
                self._maintenance.close()
                raise CatalogUnavailableError(
                    "the connection to the catalog was lost", detail=str(error).strip()
                ) from error

    def _administrators_options(self) -> str:
        given = self._parameters.get("options", "")
        return " ".join(filter(None, [given, options_of({**EVERYWHERE, **ADMINISTRATOR})]))

    def _administrator(self, database: str) -> "psycopg.Connection[tuple[object, ...]]":
        try:
            parameters = {
                **self._parameters,
                "dbname": database,
                "client_encoding": "UTF8",
                "options": self._administrators_options(),
            }
            return psycopg.connect(make_conninfo("", **parameters), autocommit=True)
        except psycopg.OperationalError as error:
            raise CatalogUnavailableError(
                "the catalog cannot be reached", detail=str(error).strip()
            ) from error


def _nothing() -> None:
    """Do nothing."""


def _fatal(message: str) -> CatalogError:
    return CatalogError(
        message,
        sqlstate=sqlstate.INVALID_AUTHORIZATION_SPECIFICATION,
        fields={"S": "FATAL", "V": "FATAL"},
    )
