"""Aggregate a compacted tiered table, without and with later changes."""

import random

from benchmarks.client import Client
from benchmarks.laboratory import Laboratory
from benchmarks.outcomes import Judgement, Outcome, Samples, milliseconds
from benchmarks.point_select import require_equal

TITLE = "Aggregates over 5 million compacted tiered rows, against bare Spark on plain Parquet"

COMPACTED_AIM = 1.1
CHANGED_AIM = 1.4
ROUNDS = 15
WARM_UP_ROUNDS = 3
UPDATES = 1000

VIEW = "events_plain"

STATEMENTS = {
    "grouped": """
        SELECT kind, count(*), sum(amount), min(created_at), max(created_at)
        FROM {table} GROUP BY kind ORDER BY kind""",
    "filtered": """
        SELECT count(*), sum(amount), avg(amount), max(account)
        FROM {table} WHERE account < 50000 AND kind <> 'fee'""",
}


def run(laboratory: Laboratory) -> Outcome:
    """Measure each statement before and after single-row updates."""
    events = laboratory.events
    laboratory.show_base(events, VIEW)
    laboratory.bare_spark.store(VIEW, laboratory.directory / "plain_events")
    with laboratory.connect_gateway() as gateway, laboratory.connect_postgres() as postgres:
        compacted = _measure(laboratory, gateway, postgres, "compacted")
        updates = laboratory.repetitions(UPDATES)
        _update(gateway, postgres, events.table, events.rows, updates)
        changed = _measure(laboratory, gateway, postgres, f"after {updates:,} updates")
    judgements = [
        Judgement(f"{name}, compacted, gateway ÷ bare Spark", _ratio(samples), COMPACTED_AIM)
        for name, samples in compacted.items()
    ]
    judgements += [
        Judgement(f"{name}, after updates, gateway ÷ bare Spark", _ratio(samples), CHANGED_AIM)
        for name, samples in changed.items()
    ]
    every = [*compacted.values(), *changed.values()]
    return Outcome(
        tuple(judgements),
        tuple(samples for pair in every for samples in pair),
        (
            f"{events.rows:,} rows.",
            *(f"{name}: `{' '.join(text.split())}`." for name, text in STATEMENTS.items()),
        ),
    )


def _measure(
    laboratory: Laboratory, gateway: Client, postgres: Client, state: str
) -> dict[str, tuple[Samples, Samples]]:
    """Return samples of the gateway and of bare Spark for each statement."""
    results = {}
    for name, text in STATEMENTS.items():
        ours = text.format(table=laboratory.events.table)
        theirs = text.format(table=VIEW)
        require_equal(gateway, postgres, ours)
        taken: tuple[list[float], list[float]] = ([], [])
        for number in range(-WARM_UP_ROUNDS, laboratory.repetitions(ROUNDS)):
            pair = gateway.time(ours), laboratory.bare_spark.time(theirs)
            if number >= 0:  # the rounds before warm both up
                for values, seconds in zip(taken, pair, strict=True):
                    values.append(seconds)
        results[name] = (
            milliseconds(f"gateway, {name}, {state}", taken[0]),
            milliseconds(f"bare Spark, {name}, {state}", taken[1]),
        )
    return results


def _update(gateway: Client, postgres: Client, table: str, rows: int, count: int) -> None:
    """Change single rows, each in a transaction of its own, on both servers."""
    keys = random.Random(2)  # noqa: S311 - the same keys in every run
    for key in keys.sample(range(1, rows + 1), count):
        statement = f"UPDATE {table} SET amount = 1.25, account = account + 1 WHERE id = {key}"
        gateway.query(statement)
        postgres.query(statement)


def _ratio(pair: tuple[Samples, Samples]) -> float:
    ours, theirs = pair
    return ours.median / theirs.median
