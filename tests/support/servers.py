"""The two servers that answer the same statements: a plain PostgreSQL and the gateway."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import psycopg

from catalog.server.embedded import SUPERUSER, EmbeddedServer
from catalog.server.roles import bootstrap
from tests.support import prepared_catalogs
from tests.support.processes import descendants, kill_all
from tests.support.repository import ROOT

READY = re.compile(r"ready: listening on (\S+) port (\d+)")

ATTENTIVE = "tests.support.attentive"
"""The module of a gateway whose upkeep tests wait for."""

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Address:
    """Where a server listens."""

    host: str
    port: int

    def conninfo(self, database: str = "postgres", **options: str) -> str:
        """Return libpq's connection string."""
        parts = {
            "host": self.host,
            "port": str(self.port),
            "user": "postgres",
            "dbname": database,
            "connect_timeout": "30",
            **options,
        }
        return psycopg.conninfo.make_conninfo(**parts)

    def variables(self, database: str = "postgres") -> dict[str, str]:
        """Return libpq's environment variables."""
        return {
            "PGHOST": self.host,
            "PGPORT": str(self.port),
            "PGUSER": "postgres",
            "PGDATABASE": database,
            "PGCONNECT_TIMEOUT": "30",
        }

    def execute(self, *statements: str, database: str = "postgres") -> None:
        """Run statements, each in a transaction of its own."""
        with psycopg.connect(self.conninfo(database), autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)  # type: ignore[call-overload]


class PlainPostgres:
    """A PostgreSQL server without a gateway: the oracle.

    It is the server of the catalog wheel with the settings and the initial role of a catalog, so
    that whatever differs is the gateway's doing.
    """

    def __init__(self, directory: Path) -> None:
        """Keep the files in ``directory``."""
        self._server = EmbeddedServer(directory)

    @property
    def address(self) -> Address:
        """Where it listens."""
        return Address(self._server.host, self._server.port)

    def __enter__(self) -> Self:
        self._server.start()
        administrator = self.address.conninfo(user=SUPERUSER)
        with psycopg.connect(administrator, autocommit=True) as connection:
            bootstrap(connection)
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.stop()


class GatewayProcess:
    """A gateway in a process group of its own."""

    def __init__(
        self,
        data_dir: Path,
        *options: str,
        module: str = "pgwire_gateway",
        environment: Mapping[str, str] | None = None,
        prepared: bool = True,
    ) -> None:
        """Name the data directory and further options of the command; nothing starts yet.

        An embedded catalog is a copy of one that has been prepared, if it is not said otherwise.
        """
        self._environment = {"PYTHONUNBUFFERED": "1", **(environment or {})}
        self.data_dir = data_dir
        self._options = options
        self._module = module
        self._is_prepared = prepared and not any(
            option.partition("=")[0] == "--catalog" for option in options
        )
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._ready = threading.Event()
        self.log: list[str] = []
        """Lines written to standard error."""
        self.address = Address("127.0.0.1", 0)
        """Where it listens, once it is ready."""

    @property
    def process_id(self) -> int:
        """Process id, which is the id of its process group too."""
        assert self._process is not None
        return self._process.pid

    @property
    def exit_status(self) -> int | None:
        """Exit status; None while it runs."""
        assert self._process is not None
        return self._process.poll()

    def launch(self) -> None:
        """Start the process without waiting for anything."""
        self._ready.clear()
        if self._is_prepared:
            prepared_catalogs.prepare(self.data_dir)
        self._process = subprocess.Popen(
            command(self.data_dir, self._options, self._module),
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
            env={**os.environ, **self._environment},
        )
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()

    def start(self) -> Self:
        """Start the process and wait until it is ready."""
        self.launch()
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._ready.wait(0.1):
            if self.exit_status is not None or time.monotonic() > deadline:
                status = self.exit_status
                self.kill()
                raise AssertionError(f"no gateway (exit status {status}):\n{self.log_text()}")
        return self

    def terminate(self, number: int = signal.SIGTERM) -> int:
        """Ask the process to end, wait for that, and return its exit status."""
        assert self._process is not None
        self._process.send_signal(number)
        try:
            return self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the gateway did not end:\n{self.log_text()}") from None

    def kill(self) -> None:
        """Kill the whole process group without warning, and wait for that."""
        assert self._process is not None
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(STOP_TIMEOUT_S)

    def kill_if_running(self) -> None:
        """End what a failed test has left running."""
        if self._process is not None and self._process.poll() is None:
            # The catalog is in a process group of its own.
            below = descendants(self._process.pid)
            self.kill()
            kill_all(below)

    def wait(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Wait for the end and return the exit status."""
        assert self._process is not None
        assert self._reader is not None
        status = self._process.wait(timeout_s)
        # What it wrote last may not have been read yet.
        self._reader.join(timeout_s)
        return status

    def log_text(self) -> str:
        """Return the last lines of the log."""
        return "".join(self.log[-60:])

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exception: object) -> None:
        if self.exit_status is None:
            self.terminate()

    def _read_log(self) -> None:
        assert self._process is not None
        assert self._process.stderr is not None
        with self._process.stderr as stream:
            for line in stream:
                self.log.append(line)
                if found := READY.search(line):
                    self.address = Address(found[1], int(found[2]))
                    self._ready.set()


def command(
    data_dir: Path, options: Sequence[str] = (), module: str = "pgwire_gateway"
) -> list[str]:
    """Return the command line of a gateway on a port the system chooses."""
    serve = [sys.executable, "-m", module, "serve", "--port", "0"]
    return [*serve, "--data-dir", str(data_dir), *options]


def database_number(connection: psycopg.Connection) -> int:
    """Return the number of a connection's database, which names its directory in the warehouse."""
    query = "SELECT oid FROM pg_database WHERE datname = current_database()"
    ((number,),) = connection.execute(query).fetchall()
    return int(number)
