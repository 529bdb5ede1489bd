"""The process: catalog, Spark and listener come up in this order and go down in the reverse.

Built on buenavista's server: one thread per connection.
"""

import logging
import select
import socket
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property, partial
from typing import IO

from buenavista.core import Connection as BuenaVistaConnection
from buenavista.postgres import BuenaVistaServer

from catalog.api import Catalog, CatalogConfig, ResidentBounds
from catalog.pg import sqlstate as codes
from catalog.server.embedded import lock_directory, time_zone_directory
from pgwire_gateway import model_files, model_import
from pgwire_gateway.config import Config, ConfigError, Method
from pgwire_gateway.errors import FatalError
from pgwire_gateway.listener import authentication, startup
from pgwire_gateway.listener.allocator import keep_freed_memory
from pgwire_gateway.listener.cancel import CancelRegistry
from pgwire_gateway.listener.channel import ClientConnection
from pgwire_gateway.listener.connection import ClientHandler
from pgwire_gateway.listener.encryption import Encryption
from pgwire_gateway.listener.paired_catalog import require_paired, warehouse_identity
from pgwire_gateway.listener.termination import termination
from pgwire_gateway.messages.base import ProtocolVersion
from pgwire_gateway.messages.responses import BackendKeyData, ParameterStatus
from pgwire_gateway.messages.startup import StartupMessage
from pgwire_gateway.references import deferred_keys
from pgwire_gateway.session import deadlines
from pgwire_gateway.session.services import Services
from pgwire_gateway.session.state import ClientSession
from pgwire_gateway.spark.compactor import Compactor
from pgwire_gateway.spark.engine import SparkEngine, SparkSettings
from pgwire_gateway.spark.executor import Executor
from pgwire_gateway.spark.java_runtime import find_java_home
from pgwire_gateway.spark.lookups import Lookups
from pgwire_gateway.spark.recent_rows import RecentRows
from pgwire_gateway.spark.relations import Relations
from pgwire_gateway.spark.warm_up import WarmUp
from pgwire_gateway.spark.zone_rules import ZoneRules
from pgwire_gateway.upkeep.filed_rows import FiledRows
from pgwire_gateway.upkeep.flusher import Flusher
from pgwire_gateway.wire_types.tails import TailCache

logger = logging.getLogger("pgwire_gateway")

SHORT_KEY_BYTES = 4
LONG_KEY_BYTES = 32
"""Length of the secret key from protocol 3.2 on, as PostgreSQL chooses it."""

HANG_UP_POLL_S = 0.5
"""How often connections with a running statement are looked at."""

_ALL_ADDRESSES = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 - what is listened on is configured

SWITCH_INTERVAL_S = 0.000_05
"""How long a thread that computes keeps the interpreter while others want it."""


class ServerState(BuenaVistaConnection):  # type: ignore[misc]
    """What all connections share: services, cancel keys and the open sessions."""

    def __init__(self, services: Services, encryption: Encryption | None = None) -> None:
        super().__init__()
        self.services = services
        self._encryption = encryption
        self._starting = 0
        self.cancels = CancelRegistry()
        self.closing = False
        self._lock = threading.Lock()
        self._open: dict[ClientSession, ClientConnection] = {}
        self._cancelling: set[ClientSession] = set()
        """Those of which it is known that what they run is to be stopped."""

    @property
    def sessions(self) -> dict[ClientSession, ClientConnection]:
        """The open sessions and their connections."""
        with self._lock:
            return dict(self._open)

    def open_session(self, connection: ClientConnection) -> ClientSession | None:
        """Lead a connection through its start-up phase; None when it was only a request.

        Raises:
            FatalError: The connection is refused.
        """
        with self._beginning(connection):
            message = startup.read_startup(connection, self.cancels, self._encryption)
            if message is None:
                return None
            self._require_room()
            version = startup.negotiate(connection, message)
            credentials = self._authenticate(connection, message)
        catalog, database = startup.open_catalog_session(
            self.services.catalog, message, credentials
        )
        session = ClientSession(connection, self.services, catalog, database)
        session.transaction.look_at_deferred = partial(deferred_keys.settle, session)
        try:
            self._greet(session, connection, version)
        except BaseException:
            # The client hung up; whoever serves it does not know of the session yet.
            self.close_session(session)
            raise
        return session

    def close_session(self, session: ClientSession) -> None:
        """End a session whose client is gone."""
        with self._lock:
            self._open.pop(session, None)
        self.cancels.remove(session.catalog.backend_pid)
        session.close()

    def cancel_abandoned(self) -> None:
        """Cancel running statements whose clients hung up."""
        for session in _hung_up(
            # The connection's own thread may close it at any moment.
            (session, connection.socket.fileno())
            for session, connection in self.sessions.items()
            if session.running is not None
        ):
            self._cancel(session)

    def end_lost(self) -> None:
        """End sessions the catalog has ended, whatever their threads wait for."""
        sessions = self.sessions
        sockets = {session: session.catalog.fileno() for session in sessions}
        # Of those without a socket it is known already.
        lost = [session for session, descriptor in sockets.items() if descriptor < 0]
        for session in (*lost, *_hung_up(sockets.items())):
            sessions[session].end_soon()
            self._cancel(session)

    def _cancel(self, session: ClientSession) -> None:
        """Stop what a session runs; nobody waits for the catalog or for Spark to take notice."""
        with self._lock:
            if session in self._cancelling:
                return
            self._cancelling.add(session)
        deadlines.PROCESS.after(0.0, partial(self._cancel_now, session))

    def _cancel_now(self, session: ClientSession) -> None:
        try:
            session.cancel()
        except Exception:
            logger.exception("could not cancel what a session runs")
        finally:
            with self._lock:
                self._cancelling.discard(session)

    @contextmanager
    def _beginning(self, connection: ClientConnection) -> Iterator[None]:
        """Let a client have some time, and not too many clients at once.

        Raises:
            FatalError: 53300.
        """
        config = self.services.config
        with self._lock:
            if self._starting > config.max_connections:
                raise FatalError("sorry, too many clients already", sqlstate="53300")
            self._starting += 1
        deadline = deadlines.PROCESS.after(
            config.authentication_timeout_s, partial(_give_up, connection)
        )
        try:
            yield
        finally:
            deadline.cancel()
            with self._lock:
                self._starting -= 1

    def _authenticate(
        self, connection: ClientConnection, message: StartupMessage
    ) -> Mapping[str, str] | None:
        """Find out who a client is; return what the catalog lets it in by, if anything is needed.

        Raises:
            FatalError: 28000 or 28P01.
        """
        config, catalog = self.services.config, self.services.catalog
        user = startup.user_of(message)
        if config.requires_encryption:
            startup.require_encryption(connection)
        if config.method is Method.TRUST:
            return None
        role = catalog.role(user)
        keys = authentication.by_password(connection, user, role, self._mock_secret)
        return keys if catalog.server is None else None

    @cached_property
    def _mock_secret(self) -> bytes:
        return self.services.catalog.mock_secret()

    def _greet(
        self, session: ClientSession, connection: ClientConnection, version: ProtocolVersion
    ) -> None:
        startup.welcome(connection)
        for name, value in session.catalog.parameter_statuses().items():
            connection.send(ParameterStatus(name, value))
        process_id = session.catalog.backend_pid
        long_key = version >= startup.LONG_KEY_VERSION
        secret_key = self.cancels.add(
            process_id, session, LONG_KEY_BYTES if long_key else SHORT_KEY_BYTES
        )
        connection.send(BackendKeyData(process_id, secret_key))
        with self._lock:
            self._open[session] = connection
        session.ready_for_query()

    def _require_room(self) -> None:
        if self.closing:
            raise FatalError("the database system is shutting down", sqlstate="57P03")
        if len(self.sessions) >= self.services.config.max_connections:
            raise FatalError("sorry, too many clients already", sqlstate="53300")


class GatewayServer(BuenaVistaServer):  # type: ignore[misc]
    """Accepts connections; each is served by a thread of its own."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, config: Config, state: ServerState) -> None:
        self.address_family = _family(config)
        super().__init__((config.host, config.port), state)
        self.RequestHandlerClass = ClientHandler
        self.state = state

    def verify_request(self, request: object, client_address: object) -> bool:  # noqa: ARG002
        """Accept whoever can reach the address: what may is decided by the address listened on."""
        return True

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002
        """Log what a connection's thread did not handle itself."""
        logger.error("connection failed", exc_info=True)  # noqa: LOG014 - called while handling

    def service_actions(self) -> None:
        """Look after connections between two accepts, which go on whatever becomes of that."""
        try:
            self.state.cancel_abandoned()
            self.state.end_lost()
        except Exception:
            logger.exception("could not look after connections")

    @property
    def port(self) -> int:
        """The port listened on."""
        return int(self.server_address[1])


class Gateway:
    """A running gateway: start, serve, stop."""

    def __init__(self, config: Config) -> None:
        _require_safe_address(config)
        self._encryption = Encryption.load(config)
        self.config = config
        self._lock: IO[str] | None = None
        self._catalog: Catalog | None = None
        self._engine: SparkEngine | None = None
        self._flusher: Flusher | None = None
        self._listener: GatewayServer | None = None
        self._thread: threading.Thread | None = None
        self._warm_up: WarmUp | None = None

    @property
    def port(self) -> int:
        """The port listened on."""
        return self._listener.port if self._listener else self.config.port

    @property
    def conninfo(self) -> str:
        """How the gateway itself connects to it, as the first role."""
        return f"host={self.config.host} port={self.port} user=postgres dbname=postgres"

    def start(self) -> None:
        """Bring up catalog, Spark and listener.

        Raises:
            GatewayError: A part could not be started; what was started is stopped again.
        """
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Accept no more, give running statements their deadline, end all processes."""
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.state.closing = True
            listener.shutdown()
            listener.server_close()
            self._end_sessions(listener.state)
        flusher, self._flusher = self._flusher, None
        if flusher is not None:
            flusher.stop()
        warming, self._warm_up = self._warm_up, None
        if warming is not None:
            warming.cancel()
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.stop()
        if warming is not None:
            # What it still waits for ends with the JVM.
            warming.join()
        catalog, self._catalog = self._catalog, None
        if catalog is not None:
            catalog.close()
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.close()

    def _start(self) -> None:
        config = self.config
        _require_free_address(config)
        if config.model is not None:
            # What the operator names in a model may be read, wherever it is.
            named = model_files.connection_files(config.model)
            config = replace(config, allow_path=(*config.allow_path, *named))
        data_dir = config.data_dir.absolute()
        data_dir.mkdir(parents=True, exist_ok=True)
        if config.catalog:
            self._lock = lock_directory(data_dir)
        bounds = ResidentBounds(
            config.resident_rows, config.resident_bytes, config.resident_hard_rows
        )
        if config.catalog:
            logger.info("connecting to PostgreSQL, the external catalog")
        else:
            logger.info("starting PostgreSQL, with its files in %s", data_dir)
        warehouse_dir = data_dir / "warehouse"
        self._catalog = Catalog.open(
            CatalogConfig(data_dir, config.catalog, bounds, warehouse_identity(warehouse_dir))
        )
        require_paired(warehouse_dir, self._catalog.system_identifier())
        if config.method is not Method.TRUST and not self._catalog.has_passwords():
            raise ConfigError(
                "no role has a password that it could log in with",
                hint="Start the gateway on 127.0.0.1, say ALTER ROLE postgres PASSWORD '...' (in "
                "psql: \\password), and start it as you wanted.",
            )
        logger.info("starting Spark, on %s", config.spark_master)
        self._engine = SparkEngine(
            SparkSettings(
                warehouse=str(data_dir / "warehouse"),
                runtime_directory=data_dir / "spark",
                master=config.spark_master,
                conf=config.spark_conf,
                jars=config.jars,
                lenders=tuple(config.allow_path),
                java_home=find_java_home(data_dir / "spark"),
                api=config.spark_api,
            )
        )
        self._engine.start()
        relations = Relations(self._engine)
        compactor = Compactor(self._engine, relations)
        warehouse = self._engine.warehouse
        filed = FiledRows(Lookups(relations.warehouse, keeps_groups=False))
        self._flusher = Flusher(self._catalog, compactor, config, warehouse, filed)
        executor = Executor(relations)
        time_zones = None if config.catalog else str(time_zone_directory())
        services = Services(
            config,
            self._catalog,
            self._engine,
            relations,
            executor,
            compactor,
            Lookups(relations.warehouse),
            warehouse,
            TailCache(),
            RecentRows(compactor.row_versions),
            self._flusher,
            ZoneRules(self._engine, time_zones),
            time_zones,
        )
        self._catalog.on_restart = services.forget
        try:
            self._listener = GatewayServer(config, ServerState(services, self._encryption))
        except OSError as error:
            raise _unavailable(config, error) from error
        self._thread = threading.Thread(
            target=self._listener.serve_forever,
            kwargs={"poll_interval": HANG_UP_POLL_S},
            name="listener",
            daemon=True,
        )
        self._thread.start()
        self._warm_up = WarmUp(self._engine, executor)

    def _end_sessions(self, state: ServerState) -> None:
        deadline = time.monotonic() + self.config.shutdown_timeout_s
        while time.monotonic() < deadline and any(s.running for s in state.sessions):
            time.sleep(0.05)
        for session, connection in state.sessions.items():
            session.cancel()
            with suppress(OSError):
                connection.socket.shutdown(socket.SHUT_RDWR)
        while time.monotonic() < deadline + 1 and state.sessions:
            time.sleep(0.02)


def _family(config: Config) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in config.host else socket.AF_INET


def _require_free_address(config: Config) -> None:
    """Refuse an address that cannot be listened on before anything is started, which takes long.

    Raises:
        ConfigError: Somebody listens there, or it is no address of this machine.
    """
    with socket.socket(_family(config)) as probe:
        # As the listener: an address is free though connections to it have just ended.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((config.host, config.port))
        except OSError as error:
            raise _unavailable(config, error) from error


def _unavailable(config: Config, error: OSError) -> ConfigError:
    return ConfigError(
        f"could not listen on {config.host} port {config.port}: {error.strerror or error}",
        hint="Choose another port with --port; 0 lets the system choose one.",
    )


def _hung_up(sockets: Iterable[tuple[ClientSession, int]]) -> list[ClientSession]:
    """Return the sessions with a socket whose other end is closed."""
    by_descriptor = {descriptor: session for session, descriptor in sockets if descriptor >= 0}
    poll = select.poll()
    for descriptor in by_descriptor:
        poll.register(descriptor, select.POLLRDHUP)
    return [by_descriptor[descriptor] for descriptor, _ in poll.poll(0)]


def _give_up(connection: ClientConnection) -> None:
    """End a connection that has not begun a session in time."""
    logger.warning("%s has not begun a session in time", connection.peer)
    connection.hang_up()


def serve(config: Config) -> int:
    """Run a gateway until SIGTERM or SIGINT; returns the exit status."""
    keep_freed_memory()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gateway = Gateway(config)
    with termination() as wait:
        gateway.start()
        if config.model is not None:
            try:
                model_import.run(config.model, gateway.conninfo)
            except BaseException:
                gateway.stop()
                raise
        logger.info("ready: listening on %s port %d", config.host, gateway.port)
        host = "localhost" if config.host in _ALL_ADDRESSES else config.host
        logger.info("connect with: psql -h %s -p %d -U postgres", host, gateway.port)
        wait()
        logger.info("stopping")
        gateway.stop()
        logger.info("stopped")
    return 0


def _require_safe_address(config: Config) -> None:
    """Refuse to let strangers in, or to let them read along.

    Raises:
        ConfigError: 22023.
    """
    if config.requires_encryption and (
        config.tls_certificate is None or config.method is Method.TRUST
    ):
        raise ConfigError(
            f"refusing to listen on {config.host}: connections would not be encrypted and "
            "authenticated",
            sqlstate=codes.INVALID_PARAMETER_VALUE,
            hint="Give a certificate with --tls-certificate, or listen on 127.0.0.1, or say "
            "--allow-insecure-network on a network you trust.",
        )
    if config.model is not None and config.method is not Method.TRUST:
        raise ConfigError(
            "--model cannot be combined with authentication",
            hint="Import the model when the gateway runs: pgwire-gateway import-model FILE.json.",
        )
