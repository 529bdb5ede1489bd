"""The embedded PostgreSQL is killed, in whole or in part: the gateway starts it again by itself.

Clients are told that their sessions have ended, as PostgreSQL tells them; new ones find everything
that was acknowledged.
"""

import itertools
import os
import signal
import threading
from collections.abc import Callable, Iterator

import psycopg
import pytest

from pgwire_gateway.messages.responses import ErrorResponse
from tests.support.fix_server import MACHINE_OPTIONS
from tests.support.processes import still_running
from tests.support.servers import GatewayProcess
from tests.support.wire_client import WireClient

pytestmark = pytest.mark.slow

PATIENCE_S = 40.0
"""How long something may take that is sure to happen."""

BUSY = "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b"
"""A statement that PostgreSQL works on for hours, without ever looking at the postmaster."""

NUMBERS = itertools.count(0, 10)

# PostgreSQL does not promise that its last words arrive.
ENDED = {"57P01", "57P02", "08006"}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    process = GatewayProcess(tmp_path_factory.mktemp("killed"), *MACHINE_OPTIONS)
    try:
        with process:
            process.address.execute("CREATE TABLE t (id integer PRIMARY KEY, v text)")
            yield process
    finally:
        process.kill_if_running()


def postmaster(gateway: GatewayProcess) -> int:
    lines = (gateway.data_dir / "catalog" / "postmaster.pid").read_text().splitlines()
    return int(lines[0])


def connect(gateway: GatewayProcess) -> psycopg.Connection:
    return psycopg.connect(gateway.address.conninfo(), autocommit=True)


def kill_postmaster(gateway: GatewayProcess, _: int) -> None:
    os.kill(postmaster(gateway), signal.SIGKILL)


def kill_backend(_: GatewayProcess, backend: int) -> None:
    os.kill(backend, signal.SIGKILL)


def sqlstate_of(error: psycopg.Error) -> str | None:
    return error.sqlstate or error.diag.sqlstate


@pytest.mark.timeout(240)
@pytest.mark.parametrize("kill", [kill_postmaster, kill_backend])
def test_it_is_started_again(
    gateway: GatewayProcess, kill: Callable[[GatewayProcess, int], None]
) -> None:
    first = postmaster(gateway)
    address = (gateway.address.host, gateway.address.port)
    idle = WireClient.connect(address, {"user": "postgres"}, timeout_s=PATIENCE_S)
    victim, busy = connect(gateway), connect(gateway)
    busy_backend = busy.info.backend_pid
    ended: list[psycopg.Error] = []

    def work() -> None:
        try:
            busy.execute(BUSY)
        except psycopg.Error as error:
            ended.append(error)

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    number = next(NUMBERS)
    victim.execute("INSERT INTO t VALUES (%s, 'kept')", [number])
    idle.query(f"BEGIN; INSERT INTO t VALUES ({number + 1}, 'not committed')")
    kill(gateway, victim.info.backend_pid)
    # A client that waits for nothing is told all the same.
    (told,) = idle.receive_until_closed()
    assert isinstance(told, ErrorResponse)
    fields = dict(told.fields)
    assert fields["V"] == "FATAL"
    assert fields["C"] in ENDED, fields
    worker.join(PATIENCE_S)
    assert [sqlstate_of(error) in ENDED for error in ended] == [True], ended
    with connect(gateway) as after:
        found = after.execute("SELECT v FROM t WHERE id >= %s", [number]).fetchall()
        assert found == [("kept",)]
        after.execute("INSERT INTO t VALUES (%s, 'after')", [number + 2])
    assert postmaster(gateway) != first
    assert still_running([first, busy_backend]) == []
    assert gateway.exit_status is None


@pytest.mark.timeout(240)
def test_new_clients_wait_for_it(gateway: GatewayProcess) -> None:
    gateway.address.execute("INSERT INTO t VALUES (-1, 'before')")
    for _ in range(3):
        kill_postmaster(gateway, 0)
        with connect(gateway) as client:
            assert client.execute("SELECT v FROM t WHERE id < 0").fetchall() == [("before",)]
