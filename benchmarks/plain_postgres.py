"""A PostgreSQL 18 of the server wheel with its default settings, listening on the loopback.

It listens on TCP, as the gateway does, so that both answer over the same transport.
"""

import os
import socket
import subprocess
import time
from pathlib import Path
from typing import Self

import psycopg

from catalog.server.embedded import SUPERUSER, EmbeddedServer, program
from tests.support.servers import Address

START_TIMEOUT_S = 30.0


class PlainPostgres:
    """A PostgreSQL server; tables of its database belong to the role postgres."""

    def __init__(self, directory: Path) -> None:
        """Start it; it keeps its files in ``directory``."""
        _create(directory)
        data = directory / "catalog"
        rules = directory / "hba.conf"
        rules.write_text("host all all 127.0.0.1/32 trust\n", encoding="utf-8")
        self.address = Address("127.0.0.1", _free_port())
        """Where it listens."""
        settings = {
            "listen_addresses": self.address.host,
            "port": str(self.address.port),
            "unix_socket_directories": "",
            "hba_file": str(rules),
            "timezone": "UTC",
        }
        options = [part for item in settings.items() for part in ("-c", "=".join(item))]
        owner, as_root = data.stat(), os.geteuid() == 0
        with (directory / "postgres.log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(program("postgres")), "-D", str(data), *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
                user=owner.st_uid if as_root else None,
                group=owner.st_gid if as_root else None,
                extra_groups=[] if as_root else None,
            )
        self._make_role()

    @property
    def process_id(self) -> int:
        """Process id of the postmaster."""
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        # SIGINT is PostgreSQL's "fast" shutdown.
        self._process.send_signal(2)
        self._process.wait(60)

    def _make_role(self) -> None:
        with _connect(self.address.conninfo(user=SUPERUSER)) as connection:
            connection.execute("CREATE ROLE postgres LOGIN SUPERUSER")


def _connect(conninfo: str) -> "psycopg.Connection[tuple[object, ...]]":
    """Connect as soon as the server is there."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            return psycopg.connect(conninfo, autocommit=True)
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _create(directory: Path) -> None:
    """Make the data directory; starting the catalog's server once does it."""
    server = EmbeddedServer(directory)
    server.start()
    server.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
