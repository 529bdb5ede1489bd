"""Read one row by key from a compacted table."""

import random

from benchmarks.client import AnswerError, Client
from benchmarks.laboratory import Laboratory
from benchmarks.outcomes import Judgement, Outcome, milliseconds

TITLE = "Point SELECT by key on 1 million compacted rows, against bare Spark"

AIM = 0.8
ROUNDS = 10
STATEMENTS_PER_ROUND = 20

BIGINT_OID = 20

VIEW = "points_base"
"""What bare Spark calls the table's own files."""


def run(laboratory: Laboratory) -> Outcome:
    """Read random keys in turn through the gateway and by ``spark.sql(…).toArrow()``."""
    points = laboratory.points
    laboratory.show_base(points, VIEW)
    bare = laboratory.bare_spark
    keys = random.Random(1)  # noqa: S311 - the same keys in every run
    taken: dict[str, list[float]] = {"simple": [], "prepared": [], "bare": [], "PostgreSQL": []}
    with laboratory.connect_gateway() as gateway, laboratory.connect_postgres() as postgres:
        for key in (1, points.rows // 2, points.rows):
            require_equal(gateway, postgres, f"SELECT * FROM {points.table} WHERE id = {key}")
        gateway.prepare("point", f"SELECT * FROM {points.table} WHERE id = $1", (BIGINT_OID,))
        rounds = laboratory.repetitions(ROUNDS)
        for number in range(-1, rounds):
            for _ in range(STATEMENTS_PER_ROUND):
                key = keys.randint(1, points.rows)
                one = {
                    "simple": gateway.time(f"SELECT * FROM {points.table} WHERE id = {key}"),
                    "bare": bare.time(f"SELECT * FROM {VIEW} WHERE id = {key}"),
                    "prepared": gateway.time_prepared("point", str(key)),
                    "PostgreSQL": postgres.time(f"SELECT * FROM {points.table} WHERE id = {key}"),
                }
                if number >= 0:  # the first round warms both up
                    for name, seconds in one.items():
                        taken[name].append(seconds)
    samples = {
        "simple": milliseconds("gateway, simple query", taken["simple"]),
        "prepared": milliseconds("gateway, prepared statement", taken["prepared"]),
        "bare": milliseconds("bare Spark", taken["bare"]),
        "PostgreSQL": milliseconds("PostgreSQL, simple query", taken["PostgreSQL"]),
    }
    ratio = samples["simple"].median / samples["bare"].median
    return Outcome(
        (Judgement("p50, gateway ÷ bare Spark", ratio, AIM),),
        tuple(samples.values()),
        (f"{points.rows:,} rows.", laboratory.loading(points)),
    )


def require_equal(gateway: Client, postgres: Client, statement: str) -> None:
    """Make sure that what is measured is the right answer.

    Raises:
        AnswerError: The gateway's answer is not PostgreSQL's.
    """
    ours, theirs = gateway.query(statement), postgres.query(statement)
    if ours != theirs:
        raise AnswerError(f"{statement}: gateway {ours[:3]}, PostgreSQL {theirs[:3]}")
