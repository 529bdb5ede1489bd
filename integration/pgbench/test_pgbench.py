"""pgbench 18: initialise at scale 1, then its built-in scripts in every query mode."""

import re
from collections.abc import Iterator

import psycopg
import pytest

from tests.support.programs import run
from tests.support.servers import Address

DATABASE = "pgbench"

ACCOUNTS = 100_000


@pytest.fixture(scope="module")
def bench(gateway: Address) -> Iterator[Address]:
    """A database that pgbench has initialised."""
    gateway.execute(f"CREATE DATABASE {DATABASE}")
    done = run("pgbench", ["-i", "-s", "1", "-q"], server=gateway.variables(DATABASE))
    assert done.returncode == 0, done.stderr
    assert "error" not in done.stderr.lower(), done.stderr
    yield gateway
    gateway.execute(f"DROP DATABASE {DATABASE} WITH (FORCE)")


def scalar(server: Address, query: str) -> object:
    with psycopg.connect(server.conninfo(DATABASE)) as connection:
        return connection.execute(query).fetchone()[0]


def bench_run(server: Address, *arguments: str, transactions: int, clients: int = 1) -> str:
    done = run(
        "pgbench",
        ["-n", "-t", str(transactions), "-c", str(clients), "-j", str(clients), *arguments],
        server=server.variables(DATABASE),
    )
    assert done.returncode == 0, done.stderr
    assert "error" not in done.stderr.lower(), done.stderr
    total = transactions * clients
    assert f"number of transactions actually processed: {total}/{total}" in done.stdout
    assert re.search(r"number of failed transactions: 0 ", done.stdout)
    return done.stdout


def test_initialisation_fills_the_tables(bench):
    assert scalar(bench, "SELECT count(*) FROM pgbench_accounts") == ACCOUNTS
    assert scalar(bench, "SELECT count(DISTINCT aid) FROM pgbench_accounts") == ACCOUNTS
    assert scalar(bench, "SELECT count(*) FROM pgbench_tellers") == 10
    assert scalar(bench, "SELECT count(*) FROM pgbench_branches") == 1
    primary_keys = (
        "SELECT count(*) FROM pg_constraint WHERE contype = 'p' AND conname LIKE 'pgbench%'"
    )
    assert scalar(bench, primary_keys) == 3


@pytest.mark.parametrize("mode", ["simple", "extended", "prepared"])
@pytest.mark.parametrize("script", ["-S", "-N", ""], ids=["select", "simple_update", "default"])
def test_built_in_script_runs_without_an_error(bench, script, mode):
    written = scalar(bench, "SELECT count(*) FROM pgbench_history")
    arguments = [script] if script else []
    bench_run(bench, *arguments, "-M", mode, transactions=5)
    expected = written if script == "-S" else written + 5
    assert scalar(bench, "SELECT count(*) FROM pgbench_history") == expected


def test_balances_agree_after_concurrent_transactions(bench):
    bench_run(bench, "-M", "prepared", transactions=3, clients=3)
    sums = [
        scalar(bench, "SELECT sum(abalance) FROM pgbench_accounts"),
        scalar(bench, "SELECT sum(delta) FROM pgbench_history"),
    ]
    assert sums[0] == sums[1]
    # Only the default script touches these two.
    assert scalar(bench, "SELECT sum(tbalance) FROM pgbench_tellers") == scalar(
        bench, "SELECT sum(bbalance) FROM pgbench_branches"
    )
