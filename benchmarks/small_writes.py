"""Write one row of a tiered table in a transaction of its own."""

import random

from benchmarks import point_select
from benchmarks.laboratory import BARE_SPARK, GATEWAY, Laboratory
from benchmarks.outcomes import Judgement, Outcome, milliseconds

TITLE = "Autocommitted INSERT and UPDATE of one tiered row, against bare Spark's point SELECT"

INSERT_AIM = 1.0
UPDATE_AIM = 1.2
STATEMENTS = 100
WARM_UP = 20

VIEW = "points_before_writes"


def run(laboratory: Laboratory) -> Outcome:
    """Insert and update in turn with a point SELECT by ``spark.sql(…).toArrow()``."""
    points = laboratory.points
    laboratory.show_base(points, VIEW)
    keys = random.Random(3)  # noqa: S311 - the same keys in every run
    new_key = points.rows
    count = laboratory.repetitions(STATEMENTS)
    taken: dict[str, list[float]] = {"insert": [], "update": [], "bare": []}
    with laboratory.connect_gateway() as gateway, laboratory.connect_postgres() as postgres:
        before = laboratory.processor_times(GATEWAY, BARE_SPARK)
        for number in range(-WARM_UP, count):
            if number == 0:
                before = laboratory.processor_times(GATEWAY, BARE_SPARK)
            new_key += 1
            key = keys.randint(1, points.rows)
            insert = (
                f"INSERT INTO {points.table} VALUES "
                f"({new_key}, 17, 'order', 12.50, '2025-03-04 05:06:07+00', 'new')"
            )
            update = f"UPDATE {points.table} SET amount = amount + 1 WHERE id = {key}"
            one = {
                "insert": gateway.time(insert),
                "bare": laboratory.bare_spark.time(f"SELECT * FROM {VIEW} WHERE id = {key}"),
                "update": gateway.time(update),
            }
            postgres.query(insert)
            postgres.query(update)
            for name, seconds in one.items() if number >= 0 else ():
                taken[name].append(seconds)
        processor = laboratory.processor_fact(
            before, {GATEWAY: count, BARE_SPARK: count}, "turn (an INSERT and an UPDATE; a SELECT)"
        )
        point_select.require_equal(
            gateway, postgres, f"SELECT count(*), sum(amount), max(id) FROM {points.table}"
        )
    samples = {
        "insert": milliseconds("gateway, INSERT", taken["insert"]),
        "update": milliseconds("gateway, UPDATE by key", taken["update"]),
        "bare": milliseconds("bare Spark, point SELECT", taken["bare"]),
    }
    base = samples["bare"].median
    return Outcome(
        (
            Judgement("INSERT p50 ÷ point SELECT p50", samples["insert"].median / base, INSERT_AIM),
            Judgement("UPDATE p50 ÷ point SELECT p50", samples["update"].median / base, UPDATE_AIM),
        ),
        tuple(samples.values()),
        (
            f"{points.rows:,} compacted rows; the tail grows by two row versions each turn.",
            processor,
        ),
    )
