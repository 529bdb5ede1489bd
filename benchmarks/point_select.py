"""Read one row by key from a compacted tiered table."""

import random

from benchmarks.client import AnswerError, Client
from benchmarks.laboratory import BARE_SPARK, GATEWAY, Laboratory
from benchmarks.outcomes import Judgement, Outcome, milliseconds

TITLE = "Point SELECT by key on 1 million compacted rows of a tiered table, against bare Spark"

AIM = 0.1
STATEMENTS = 200
WARM_UP = 40

BIGINT_OID = 20

VIEW = "points_base"
"""What bare Spark calls the table's own files."""


def run(laboratory: Laboratory) -> Outcome:
    """Read random keys in turn through the gateway and by ``spark.sql(…).toArrow()``."""
    points = laboratory.points
    laboratory.show_base(points, VIEW)
    bare = laboratory.bare_spark
    count = laboratory.repetitions(STATEMENTS)
    keys = random.Random(1)  # noqa: S311 - the same keys in every run
    taken: dict[str, list[float]] = {"simple": [], "prepared": [], "bare": [], "PostgreSQL": []}
    with laboratory.connect_gateway() as gateway, laboratory.connect_postgres() as postgres:
        for key in (1, points.rows // 2, points.rows):
            require_equal(gateway, postgres, f"SELECT * FROM {points.table} WHERE id = {key}")
        gateway.prepare("point", f"SELECT * FROM {points.table} WHERE id = $1", (BIGINT_OID,))
        before = laboratory.processor_times(GATEWAY, BARE_SPARK)
        for number in range(-WARM_UP, count):
            if number == 0:
                before = laboratory.processor_times(GATEWAY, BARE_SPARK)
            key = keys.randint(1, points.rows)
            statement = f"SELECT * FROM {points.table} WHERE id = {key}"
            one = {
                "simple": gateway.time(statement),
                "bare": bare.time(f"SELECT * FROM {VIEW} WHERE id = {key}"),
                "prepared": gateway.time_prepared("point", str(key)),
                "PostgreSQL": postgres.time(statement),
            }
            for name, seconds in one.items() if number >= 0 else ():
                taken[name].append(seconds)
        processor = laboratory.processor_fact(
            before, {GATEWAY: 2 * count, BARE_SPARK: count}, "statement"
        )
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
        (f"{points.rows:,} rows.", processor, laboratory.loading(points)),
    )


def require_equal(gateway: Client, postgres: Client, statement: str) -> None:
    """Make sure that what is measured is the right answer.

    Raises:
        AnswerError: The gateway's answer is not PostgreSQL's.
    """
    ours, theirs = gateway.query(statement), postgres.query(statement)
    if ours != theirs:
        raise AnswerError(f"{statement}: gateway {ours[:3]}, PostgreSQL {theirs[:3]}")
