"""The embedded server starts, stops, keeps its data, and belongs to one gateway at a time."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest

from catalog.api import Catalog, CatalogConfig, ResidentBounds
from catalog.errors import CatalogUnavailableError, GatewayError
from catalog.server import embedded
from catalog.server.embedded import SUPERUSER, EmbeddedServer
from tests.support.fix_catalog import PATIENCE_S

pytestmark = pytest.mark.catalog

_HOLD = """
import sys, time
from pathlib import Path
from catalog.server.embedded import EmbeddedServer
server = EmbeddedServer(Path(sys.argv[1]))
server.start()
print(server.process_id, flush=True)
time.sleep(60)
"""


@pytest.fixture
def directory():
    with tempfile.TemporaryDirectory(prefix="catalog-", ignore_cleanup_errors=True) as name:
        yield Path(name)


@pytest.fixture
def server(directory):
    server = EmbeddedServer(directory)
    server.start()
    yield server
    server.stop()


def _connect(server):
    return psycopg.connect(
        host=server.host, port=server.port, user=SUPERUSER, dbname="postgres", autocommit=True
    )


def _is_alive(process_id):
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True


def test_data_survive_a_restart_and_a_second_start_changes_nothing(server):
    with _connect(server) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS a")
    first = server.process_id
    server.start()
    assert server.process_id == first
    server.stop()
    assert not _is_alive(first)
    server.start()
    with _connect(server) as connection:
        assert connection.execute("SELECT a FROM kept").fetchone() == (42,)


def test_text_is_ordered_by_its_bytes(server):
    with _connect(server) as connection:
        rows = connection.execute("SELECT c FROM unnest('{b,B,ä,a}'::text[]) u(c) ORDER BY c")
        assert "".join(row[0] for row in rows) == "Babä"


def test_a_second_gateway_is_turned_away(server, directory):
    with pytest.raises(GatewayError, match="in use by another gateway") as caught:
        EmbeddedServer(directory).start()
    assert caught.value.sqlstate == "55000"


def test_the_socket_is_private_and_there_is_no_other_way_in(server):
    assert Path(server.host).stat().st_mode & 0o077 == 0
    with _connect(server) as connection:
        assert connection.execute("SHOW listen_addresses").fetchone() == ("",)


def test_a_long_directory_name_gets_a_short_socket(directory):
    server = EmbeddedServer(directory / ("d" * 100))
    server.start()
    with _connect(server) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    socket = Path(server.host)
    server.stop()
    assert not socket.exists()


def test_a_lost_server_is_started_again(server):
    os.kill(server.process_id, signal.SIGKILL)
    deadline = time.monotonic() + PATIENCE_S
    while server.is_running() and time.monotonic() < deadline:
        time.sleep(0.05)
    server.start()
    with _connect(server) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_number_that_another_program_has_taken_is_left_alone(server, directory):
    pid_file = directory / "catalog" / "postmaster.pid"
    lock_file = Path(server.host) / f".s.PGSQL.{server.port}.lock"
    account = pid_file.stat()
    os.kill(server.process_id, signal.SIGKILL)
    server.wait()
    sleeping = ["sleep", "60"]
    other = subprocess.Popen(sleeping, user=account.st_uid, group=account.st_gid, cwd="/")
    try:
        for file in (pid_file, lock_file):
            lines = file.read_text().splitlines()
            file.write_text("\n".join([str(other.pid), *lines[1:]]) + "\n")
        server.start()
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
    with _connect(server) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def _asked_again(catalog, sql):
    """Return a session, and what it answers; a server takes some when it is about to end."""
    deadline = time.monotonic() + 30
    while True:
        session = catalog.connect("postgres", "postgres")
        try:
            return session, [row[0] for row in session.execute(sql).rows]
        except CatalogUnavailableError:
            session.close()
            assert time.monotonic() < deadline


@pytest.mark.parametrize("victim", ["postmaster", "backend"])
def test_a_catalog_whose_server_dies_is_served_again(directory, victim):
    """What was learnt from the server that has ended is forgotten: numbers may be given anew."""
    catalog = Catalog.open(CatalogConfig(directory, bounds=ResidentBounds(1000)))
    forgotten = []
    catalog.on_restart = lambda: forgotten.append(catalog.adopted())
    session = catalog.connect("postgres", "postgres")
    list(session.execute("CREATE TABLE kept (a int PRIMARY KEY)").rows)
    list(session.execute("INSERT INTO kept VALUES (42)").rows)
    known = catalog.thawing("postgres")
    last_call = next(session._calls._codes.numbers)
    first = catalog.server.process_id
    os.kill(first if victim == "postmaster" else session.backend_pid, signal.SIGKILL)
    again, rows = _asked_again(catalog, "SELECT a FROM kept")
    assert rows == [b"42"]
    assert catalog.server.process_id != first
    assert forgotten[0] == ("postgres",)
    assert catalog.thawing("postgres") is not known
    assert next(again._calls._codes.numbers) > last_call
    with pytest.raises(CatalogUnavailableError):
        session.require_connected()
    session.close()
    again.require_connected()
    again.close()
    catalog.close()
    assert not catalog.server.is_running()


def test_the_server_of_a_killed_gateway_is_stopped_with_its_sessions(directory):
    gateway = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(directory)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    leftover = int(gateway.stdout.readline())
    session = psycopg.connect(
        host=str(directory / "socket"), user=SUPERUSER, dbname="postgres", autocommit=True
    )
    gateway.kill()
    gateway.wait()
    gateway.stdout.close()
    assert session.execute("SELECT 1").fetchone() == (1,)
    server = EmbeddedServer(directory)
    server.start()
    try:
        assert server.process_id != leftover
        with pytest.raises(psycopg.OperationalError):
            session.execute("SELECT 1")
        with _connect(server) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
    finally:
        server.stop()


def test_a_server_that_is_gone_has_nothing_to_cancel(directory):
    catalog = Catalog.open(CatalogConfig(data_dir=directory))
    session = catalog.connect("postgres", "postgres")
    catalog.close()
    session.cancel()
    session.close()


def test_gateways_that_start_at_once_create_the_account_once(monkeypatch):
    created = []

    def create() -> None:
        time.sleep(0.2)
        created.append(995)

    def known(name: str) -> SimpleNamespace:
        if not created:
            raise KeyError(name)
        return SimpleNamespace(pw_uid=created[-1], pw_gid=created[-1])

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(embedded.pwd, "getpwnam", known)
    monkeypatch.setattr(embedded, "_create_account", create)
    with ThreadPoolExecutor(3) as gateways:
        accounts = list(gateways.map(lambda _: embedded._server_account(), range(3)))
    assert created == [995]
    assert {account.uid for account in accounts} == {995}
