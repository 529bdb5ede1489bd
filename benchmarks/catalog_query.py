r"""Describe a tiered table as psql's ``\d t`` does."""

import re
import subprocess

from benchmarks.client import Client
from benchmarks.laboratory import GATEWAY, POSTGRES, Laboratory
from benchmarks.outcomes import Judgement, Outcome, milliseconds
from tests.support import programs
from tests.support.servers import Address

TITLE = r"Catalog queries of psql's `\d t` for a tiered table, against PostgreSQL"

AIM = 2.0
ROUNDS = 200

_ECHOED = re.compile(r"^/\*+ QUERY \*+/\n(.*?)\n/\*+/$", re.MULTILINE | re.DOTALL)


def run(laboratory: Laboratory) -> Outcome:
    """Run all queries behind one command in turn on both servers."""
    table = laboratory.points.table
    gateway_queries = _queries(laboratory.gateway.address, table)
    postgres_queries = _queries(laboratory.postgres.address, table)
    taken: tuple[list[float], list[float]] = ([], [])
    with laboratory.connect_gateway() as gateway, laboratory.connect_postgres() as postgres:
        rounds = laboratory.repetitions(ROUNDS)
        warm_up = rounds // 10 + 1
        before = laboratory.processor_times(GATEWAY, POSTGRES)
        for number in range(-warm_up, rounds):
            pair = _time(gateway, gateway_queries), _time(postgres, postgres_queries)
            if number >= 0:  # the rounds before warm both up
                for values, seconds in zip(taken, pair, strict=True):
                    values.append(seconds)
        turns = warm_up + rounds
        processor = laboratory.processor_fact(
            before, {GATEWAY: turns, POSTGRES: turns}, "command, warming up included"
        )
    samples = milliseconds("gateway", taken[0]), milliseconds("PostgreSQL", taken[1])
    ratio = samples[0].median / samples[1].median
    return Outcome(
        (Judgement("p50, gateway ÷ PostgreSQL", ratio, AIM),),
        samples,
        (
            "All over one open connection.",
            f"Queries on the gateway: {len(gateway_queries)}; PostgreSQL: {len(postgres_queries)}.",
            processor,
        ),
    )


def _queries(address: Address, table: str) -> list[str]:
    """Let psql show the queries it sends; they hold the OIDs of the server."""
    done = programs.run("psql", ["-X", "-E", "-c", rf"\d {table}"], server=address.variables())
    queries = _ECHOED.findall(done.stdout)
    if not queries:
        raise subprocess.CalledProcessError(done.returncode, "psql", done.stdout, done.stderr)
    return list(queries)


def _time(client: Client, queries: list[str]) -> float:
    return sum(client.time(query) for query in queries)
