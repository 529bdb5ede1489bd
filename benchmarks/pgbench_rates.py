"""Let pgbench run its built-in scripts, also while others keep the gateway busy."""

import os
import re
import subprocess
import time
from collections.abc import Callable, Mapping
from statistics import median

from benchmarks import datasets, residency
from benchmarks.background import Background
from benchmarks.client import AnswerError, Client
from benchmarks.datasets import Dataset
from benchmarks.laboratory import POSTGRES, RESIDENT_GATEWAY, Laboratory
from benchmarks.outcomes import Judgement, Outcome, Samples
from benchmarks.point_select import require_equal
from tests.support import programs
from tests.support.servers import Address

TITLE = "pgbench at scale 1, against PostgreSQL and beside heavy statements"

AIMS = {1: 0.3, 8: 0.25}
"""Share of PostgreSQL's transactions per second, by number of clients."""
DISTURBED_AIM = 0.5
"""Share of the undisturbed rate."""
ROUNDS = 5
RUN_S = 5
HEAVY_ROWS = 1_000_000

UNIT = "transactions/s"

SELECT = "-S"
DEFAULT = "TPC-B-like"

SCRIPTS = {DEFAULT: "tpcb-like", "-N": "simple-update", SELECT: "select-only"}
"""What pgbench calls its scripts."""

TABLES = ("pgbench_accounts", "pgbench_branches", "pgbench_history", "pgbench_tellers")

DISTURBED_CLIENTS = 8
UNDISTURBED = "alone"
STREAM = "beside streamed rows"
SPARK = "beside Spark"

HEAVY_STATEMENT = """
    SELECT account, count(DISTINCT note), sum(amount) FROM {table}
    GROUP BY account ORDER BY sum(amount) DESC NULLS LAST, account LIMIT 10"""

_RATE = re.compile(r"^tps = ([0-9.]+) ", re.MULTILINE)
_PROCESSED = re.compile(r"^number of transactions actually processed: ([0-9]+)$", re.MULTILINE)
_FAILED = re.compile(r"^number of failed transactions: ([0-9]+) ", re.MULTILINE)


def run(laboratory: Laboratory) -> Outcome:
    """Run all scripts on both servers in turn, then some of them beside heavy statements."""
    addresses = {
        RESIDENT_GATEWAY: laboratory.resident_gateway.address,
        POSTGRES: laboratory.postgres.address,
    }
    for address in addresses.values():
        _pgbench(address, "-i", "-s", "1", "-q")
    seconds, rounds = laboratory.seconds(RUN_S), laboratory.repetitions(ROUNDS)
    with laboratory.connect_resident_gateway() as gateway:
        residency.require(gateway, TABLES, residency.RESIDENT)
        compared = _compare(addresses, rounds, seconds)
        heavy = _load_heavy(laboratory, gateway)
        statements = _heavy_statements(heavy)
        took = {
            name: Samples(
                f"gateway, a heavy statement, no pgbench ({name})",
                tuple(_seconds(gateway, statement) for _ in range(rounds)),
                "s",
            )
            for name, statement in statements.items()
        }
        disturbances = {
            name: Background(addresses[RESIDENT_GATEWAY], statement)
            for name, statement in statements.items()
        }
        disturbed = _disturb(addresses[RESIDENT_GATEWAY], disturbances, rounds, seconds)
        residency.require(gateway, TABLES, residency.RESIDENT)
        residency.require(gateway, [heavy.table], residency.TIERED)
        residency.require_lawful(gateway, TABLES)
    return Outcome(
        (*_judge_compared(compared), *_judge_disturbed(disturbed)),
        (
            *(
                Samples(f"{_server(server)}, {script}, {_clients(clients)}", tuple(rates), UNIT)
                for (script, clients, server), rates in compared.items()
            ),
            *(
                Samples(
                    f"gateway, {script}, {_clients(DISTURBED_CLIENTS)}, {what}", tuple(rates), UNIT
                )
                for (script, what), rates in disturbed.items()
            ),
            *took.values(),
        ),
        (
            (
                f"Runs of {seconds} s in pgbench's default protocol mode (simple); it vacuums its "
                "tables before each run."
            ),
            "After each run that writes, the history holds a row for each of its transactions.",
            (
                f"The heavy table is tiered and has {heavy.rows:,} rows. Streamed: "
                f"`SELECT * FROM {heavy.table}`; on Spark: "
                f"`{' '.join(HEAVY_STATEMENT.format(table=heavy.table).split())}`."
            ),
            *(
                f"{name}: {one.turns} heavy statements in {one.seconds:.0f} s."
                for name, one in disturbances.items()
            ),
        ),
    )


# runs -------------------------------------------------------------------------------------------

Compared = dict[tuple[str, int, str], list[float]]
"""Rates by script, number of clients and server."""
Disturbed = dict[tuple[str, str], list[float]]
"""Rates by script and what went on beside it."""


def _compare(addresses: dict[str, Address], rounds: int, seconds: int) -> Compared:
    rates: Compared = {}
    for number in range(-1, rounds):
        for script in SCRIPTS:
            for clients in AIMS:
                for server, address in addresses.items():
                    rate = _rate(address, script, clients, seconds)
                    if number >= 0:  # the round before warms both up
                        rates.setdefault((script, clients, server), []).append(rate)
    return rates


def _disturb(
    address: Address, disturbances: Mapping[str, Background], rounds: int, seconds: int
) -> Disturbed:
    rates: Disturbed = {}
    for _ in range(rounds):
        for script in (SELECT, DEFAULT):
            alone = _rate(address, script, DISTURBED_CLIENTS, seconds)
            rates.setdefault((script, UNDISTURBED), []).append(alone)
            for name, disturbance in disturbances.items():
                with disturbance:
                    rate = _rate(address, script, DISTURBED_CLIENTS, seconds)
                rates.setdefault((script, name), []).append(rate)
    return rates


def _rate(address: Address, script: str, clients: int, seconds: int) -> float:
    """Return the transactions per second of one run.

    Raises:
        AnswerError: Transactions failed or left no trace.
    """
    threads = min(clients, os.cpu_count() or 1)
    numbers = ("-T", str(seconds), "-c", str(clients), "-j", str(threads))
    output = _pgbench(address, "-b", SCRIPTS[script], *numbers)
    found = [pattern.search(output) for pattern in (_RATE, _PROCESSED, _FAILED)]
    if not all(found):
        raise AnswerError(f"pgbench says:\n{output}")
    rate, processed, failed = (match[1] for match in found if match)
    if failed != "0":
        raise AnswerError(f"transactions failed:\n{output}")
    if script != SELECT:
        with Client(address) as client:
            if client.query("SELECT count(*) FROM pgbench_history") != [(processed,)]:
                raise AnswerError(f"the history does not hold {processed} transactions")
    return float(rate)


def _pgbench(address: Address, *arguments: str) -> str:
    done = programs.run("pgbench", arguments, server=address.variables())
    if done.returncode != 0:
        raise subprocess.CalledProcessError(done.returncode, "pgbench", done.stdout, done.stderr)
    return done.stdout


# disturbances -----------------------------------------------------------------------------------


def _load_heavy(laboratory: Laboratory, gateway: Client) -> Dataset:
    """Make a tiered table, and make sure that Spark answers what is asked of it."""
    heavy = Dataset("heavy", laboratory.rows(HEAVY_ROWS))
    datasets.load_postgres(laboratory.postgres.address, heavy)
    datasets.load_gateway(laboratory.postgres.address, laboratory.resident_gateway.address, heavy)
    residency.freeze(gateway, heavy.table)
    residency.wait_until_tiered(gateway, heavy.table)
    with laboratory.connect_postgres() as postgres:
        require_equal(gateway, postgres, HEAVY_STATEMENT.format(table=heavy.table))
    decision = gateway.query("SHOW gateway.last_decision")[0][0]
    if not str(decision).startswith("spark"):
        raise AnswerError(f"the heavy statement is not on Spark but on {decision}")
    return heavy


def _heavy_statements(heavy: Dataset) -> dict[str, Callable[[Client], object]]:
    whole = f"SELECT * FROM {heavy.table}"
    grouped = HEAVY_STATEMENT.format(table=heavy.table)
    return {
        STREAM: lambda client: client.discard(whole, heavy.rows),
        SPARK: lambda client: client.query(grouped),
    }


def _seconds(client: Client, statement: Callable[[Client], object]) -> float:
    start = time.perf_counter()
    statement(client)
    return time.perf_counter() - start


# judgements -------------------------------------------------------------------------------------


def _judge_compared(rates: Compared) -> list[Judgement]:
    return [
        Judgement(
            f"{script}, {_clients(clients)}, gateway ÷ PostgreSQL",
            median(rates[script, clients, RESIDENT_GATEWAY])
            / median(rates[script, clients, POSTGRES]),
            aim,
            at_least=True,
        )
        for script in SCRIPTS
        for clients, aim in AIMS.items()
    ]


def _judge_disturbed(rates: Disturbed) -> list[Judgement]:
    return [
        Judgement(
            f"{script}, {_clients(DISTURBED_CLIENTS)}, {what} ÷ {UNDISTURBED}",
            median(values) / median(rates[script, UNDISTURBED]),
            DISTURBED_AIM,
            at_least=True,
        )
        for (script, what), values in rates.items()
        if what != UNDISTURBED
    ]


def _server(name: str) -> str:
    return "gateway" if name == RESIDENT_GATEWAY else name


def _clients(number: int) -> str:
    return "1 client" if number == 1 else f"{number} clients"
