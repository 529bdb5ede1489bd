"""Start, stop and start again: one gateway for each data directory, nothing left behind."""

import signal
import socket
import subprocess
import time
from pathlib import Path

import psycopg
import pytest

from tests.support.fix_server import SPARK_OPTIONS
from tests.support.processes import descendants, processes_naming, still_running
from tests.support.programs import run
from tests.support.servers import START_TIMEOUT_S, STOP_TIMEOUT_S, GatewayProcess, command


@pytest.fixture
def process(tmp_path: Path):
    """A gateway that a test may end; it has not started."""
    gateway = GatewayProcess(tmp_path / "data", *SPARK_OPTIONS, prepared=False)
    yield gateway
    gateway.kill_if_running()


def test_what_takes_long_is_said_before(gateway_process: GatewayProcess):
    postgresql, spark, ready = (line.split(" INFO ")[1] for line in gateway_process.log[:3])
    files = str(gateway_process.data_dir)
    assert postgresql == f"starting PostgreSQL, with its files in {files}\n"
    assert spark.startswith("starting Spark, on local[")
    assert ready.startswith("ready: listening on")


def test_second_gateway_on_the_same_directory_is_refused(gateway_process: GatewayProcess):
    second = subprocess.run(
        command(gateway_process.data_dir),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=START_TIMEOUT_S,
        check=False,
    )
    assert second.returncode == 1
    assert str(gateway_process.data_dir) in second.stderr
    assert "in use by another gateway" in second.stderr
    assert "Traceback" not in second.stderr
    gateway_process.address.execute("SELECT 1")


def test_port_that_is_taken_is_refused(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        arguments = command(tmp_path / "data", ["--port", str(taken.getsockname()[1])])
        second = subprocess.run(
            arguments, capture_output=True, text=True, timeout=START_TIMEOUT_S, check=False
        )
    assert second.returncode == 1
    assert "Address already in use" in second.stderr
    assert "Traceback" not in second.stderr
    assert processes_naming(str(tmp_path)) == []
    assert not (tmp_path / "data").exists(), "it is refused before anything is made"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_signal_ends_every_process(process: GatewayProcess, number: int):
    process.start()
    process.address.execute("CREATE TABLE t (a integer)", "INSERT INTO t VALUES (1)")
    below = descendants(process.process_id)
    assert len(below) > 3, "catalog and Spark are processes below the gateway"
    assert process.terminate(number) == 0
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while still_running(below) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert still_running(below) == []
    assert processes_naming(str(process.data_dir)) == []
    ready = [line for line in process.log if "ready: listening on" in line]
    assert len(ready) == 1
    assert f"port {process.address.port}" in ready[0]


def test_stop_disconnects_clients_and_lets_no_more_in(process: GatewayProcess):
    process.start()
    client = psycopg.connect(process.address.conninfo(), autocommit=True)
    client.execute("CREATE TABLE t (a integer)")
    process.terminate()
    with pytest.raises(psycopg.OperationalError):
        client.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(process.address.conninfo())


def test_restart_finds_everything(process: GatewayProcess):
    process.start()
    process.address.execute(
        "CREATE SCHEMA hr",
        "CREATE TABLE hr.small (id serial PRIMARY KEY, v text)",
        "CREATE TABLE hr.large (id integer PRIMARY KEY, v text)",
        "CREATE TABLE hr.packed (id integer PRIMARY KEY, v text)",
        "CREATE VIEW hr.both_of_them AS SELECT id, v FROM hr.small UNION ALL TABLE hr.packed",
        "INSERT INTO hr.small (v) VALUES ('a'), ('b')",
        "INSERT INTO hr.large SELECT g, 'row ' || g FROM generate_series(1, 3000) g",
        "INSERT INTO hr.packed VALUES (1, 'x'), (2, 'y'), (3, 'z')",
        "VACUUM hr.packed",
        "DELETE FROM hr.packed WHERE id = 3",
        "UPDATE hr.packed SET v = 'yy' WHERE id = 2",
        "CREATE ROLE clerk LOGIN",
        "CREATE DATABASE other",
    )
    process.address.execute(
        "CREATE TABLE t (a integer)", "INSERT INTO t VALUES (42)", database="other"
    )
    queries = {
        "SELECT * FROM hr.small ORDER BY id": [(1, "a"), (2, "b")],
        "SELECT count(*), max(v) FROM hr.large": [(3000, "row 999")],
        "SELECT * FROM hr.packed ORDER BY id": [(1, "x"), (2, "yy")],
        "SELECT count(*) FROM hr.both_of_them": [(4,)],
        "SELECT count(*) FROM hr.packed_journal": [(5,)],
        "SELECT rolcanlogin FROM pg_roles WHERE rolname = 'clerk'": [(True,)],
    }
    for _ in range(2):
        with psycopg.connect(process.address.conninfo()) as connection:
            for query, expected in queries.items():
                assert connection.execute(query).fetchall() == expected, query
        with psycopg.connect(process.address.conninfo("other")) as connection:
            assert connection.execute("SELECT a FROM t").fetchall() == [(42,)]
        process.terminate()
        process.start()
    with psycopg.connect(process.address.conninfo(), autocommit=True) as connection:
        inserted = connection.execute("INSERT INTO hr.small (v) VALUES ('c') RETURNING id")
        assert inserted.fetchall() == [(3,)]


def test_department_example_of_the_convention(gateway, database):
    script = """
        CREATE SCHEMA hr;
        CREATE TABLE hr.depts (deptno integer PRIMARY KEY, department_name text);
        INSERT INTO hr.depts (deptno, department_name) VALUES (666, 'Pivotal');
        UPDATE hr.depts SET department_name='New Name' WHERE deptno = 666;
        DELETE FROM hr.depts WHERE deptno=666;
        SELECT count(*) FROM hr.depts;
        SELECT deptno, department_name, subsequent_version_number IS NOT NULL
          FROM hr.depts_journal ORDER BY version_number;
        INSERT INTO hr.depts (deptno, department_name) VALUES (666, 'Back');
        SELECT * FROM hr.depts;
    """
    done = run("psql", ["-XAt"], server=gateway.variables(database), stdin=script, merged=True)
    assert done.stdout.splitlines() == [
        "CREATE SCHEMA",
        "CREATE TABLE",
        "INSERT 0 1",
        "UPDATE 1",
        "DELETE 1",
        "0",
        "666|Pivotal|f",
        "666|New Name|f",
        "666|New Name|t",
        "INSERT 0 1",
        "666|Back",
    ]
