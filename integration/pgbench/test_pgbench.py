"""pgbench 18: initialise at scale 1, then its built-in scripts in every query mode."""

import re
from collections.abc import Iterator

import psycopg
import pytest

from tests.support.fix_clients import scratch_database
from tests.support.programs import run
from tests.support.servers import Address

DATABASE = "pgbench"

ACCOUNTS = 100_000

INITIALISATIONS = {"without_foreign_keys": [], "with_foreign_keys": ["--foreign-keys"]}

SCRIPTS = ["select-only", "simple-update", "tpcb-like"]

FOREIGN_KEYS = {
    ("pgbench_tellers", "pgbench_branches"),
    ("pgbench_accounts", "pgbench_branches"),
    ("pgbench_history", "pgbench_branches"),
    ("pgbench_history", "pgbench_tellers"),
    ("pgbench_history", "pgbench_accounts"),
}


@pytest.fixture(scope="module", params=INITIALISATIONS.values(), ids=INITIALISATIONS)
def options(request: pytest.FixtureRequest) -> list[str]:
    """Options of the initialisation."""
    return request.param


@pytest.fixture(scope="module")
def bench(server_under_test: Address, options: list[str]) -> Iterator[Address]:
    """The server, with a database that pgbench has initialised."""
    with scratch_database(server_under_test, DATABASE) as name:
        server = server_under_test.variables(name)
        done = run("pgbench", ["-i", "-s", "1", "-q", *options], server=server)
        assert done.returncode == 0, done.stderr
        assert "error" not in done.stderr.lower(), done.stderr
        yield server_under_test


def rows(server: Address, query: str) -> list[tuple]:
    with psycopg.connect(server.conninfo(DATABASE)) as connection:
        return connection.execute(query).fetchall()


def scalar(server: Address, query: str) -> object:
    return rows(server, query)[0][0]


def bench_run(server: Address, *arguments: str, transactions: int, clients: int = 1) -> None:
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


def test_initialisation_fills_the_tables(bench: Address) -> None:
    assert scalar(bench, "SELECT count(*) FROM pgbench_accounts") == ACCOUNTS
    assert scalar(bench, "SELECT count(DISTINCT aid) FROM pgbench_accounts") == ACCOUNTS
    assert scalar(bench, "SELECT count(*) FROM pgbench_tellers") == 10
    assert scalar(bench, "SELECT count(*) FROM pgbench_branches") == 1


def test_initialisation_makes_the_keys(bench: Address, options: list[str]) -> None:
    primary_keys = (
        "SELECT count(*) FROM pg_constraint WHERE contype = 'p' AND conname LIKE 'pgbench%'"
    )
    assert scalar(bench, primary_keys) == 3
    foreign_keys = (
        "SELECT conrelid::regclass::text, confrelid::regclass::text"
        " FROM pg_constraint WHERE contype = 'f' AND connamespace = 'public'::regnamespace"
    )
    assert set(rows(bench, foreign_keys)) == (FOREIGN_KEYS if options else set())


@pytest.mark.parametrize("clients", [1, 4], ids=["one_client", "four_clients"])
@pytest.mark.parametrize("mode", ["simple", "extended", "prepared"])
@pytest.mark.parametrize("script", SCRIPTS)
def test_built_in_script(bench: Address, script: str, mode: str, clients: int) -> None:
    written = scalar(bench, "SELECT count(*) FROM pgbench_history")
    bench_run(bench, f"--builtin={script}", "-M", mode, transactions=10, clients=clients)
    expected = 0 if script == "select-only" else 10 * clients
    assert scalar(bench, "SELECT count(*) FROM pgbench_history") == written + expected


def test_every_account_holds_the_sum_of_its_history(bench: Address) -> None:
    bench_run(bench, "--builtin=simple-update", transactions=20, clients=4)
    differing = (
        "SELECT count(*) FROM pgbench_accounts a LEFT JOIN"
        " (SELECT aid, sum(delta) AS delta FROM pgbench_history GROUP BY aid) h USING (aid)"
        " WHERE a.abalance <> coalesce(h.delta, 0)"
    )
    assert scalar(bench, differing) == 0


def test_balances_agree_after_concurrent_transactions(bench: Address) -> None:
    bench_run(bench, "-M", "prepared", transactions=20, clients=4)
    sums = [
        scalar(bench, "SELECT sum(abalance) FROM pgbench_accounts"),
        scalar(bench, "SELECT sum(delta) FROM pgbench_history"),
    ]
    assert sums[0] == sums[1]
    # Only the script of TPC-B touches these two.
    assert scalar(bench, "SELECT sum(tbalance) FROM pgbench_tellers") == scalar(
        bench, "SELECT sum(bbalance) FROM pgbench_branches"
    )
