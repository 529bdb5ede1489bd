"""The 22 queries of TPC-H on tiered tables, computed by Spark, beside bare Spark on plain Parquet.

Both read the same query texts, which are Spark SQL as well.
"""

from collections.abc import Mapping
from pathlib import Path
from statistics import median

import psycopg

from benchmarks.client import AnswerError, Client
from benchmarks.laboratory import Laboratory
from benchmarks.outcomes import Judgement, Outcome, Samples, milliseconds
from tests.support.tpch import QUERIES, SCHEMA, TABLES, generate

TITLE = "TPC-H at scale 0.1 and 1 on tiered tables, against bare Spark on plain Parquet"

SCALES = (0.1, 1.0)
SMALLEST = 0.01
"""Below, the generator makes keys of partsupp twice."""
ROUNDS = {0.1: 5, 1.0: 3}
WARM_UP_ROUNDS = {0.1: 2, 1.0: 1}

TOTAL_AIM = 1.1
SINGLE_AIM = 1.5

COPY_CHUNK_BYTES = 1 << 20

Pair = tuple[Samples, Samples]
"""Of the gateway and of bare Spark."""


def run(laboratory: Laboratory) -> Outcome:
    """Load both scales one after the other, and run all queries on each in turn."""
    queries = {path.stem: path.read_text(encoding="utf-8") for path in QUERIES}
    judgements: list[Judgement] = []
    samples: list[Samples] = []
    facts: list[str] = []
    for scale in SCALES:
        size = max(SMALLEST, scale * laboratory.scale)
        database = f"tpch_{round(size * 1000)}"
        _load(laboratory, size, database)
        measured = _measure(laboratory, scale, database, queries)
        ratios = {name: ours.median / theirs.median for name, (ours, theirs) in measured.items()}
        worst = max(ratios, key=ratios.__getitem__)
        totals = [sum(pair[side].median for pair in measured.values()) for side in (0, 1)]
        judgements += [
            Judgement(f"all queries at {size:g}", totals[0] / totals[1], TOTAL_AIM),
            Judgement(f"the worst query at {size:g}, {worst}", ratios[worst], SINGLE_AIM),
        ]
        samples += [one for pair in measured.values() for one in pair]
        facts.append(
            f"At {size:g} {totals[0] / 1000:.2f} s and {totals[1] / 1000:.2f} s; "
            + ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())
            + f"; median {median(ratios.values()):.2f}."
        )
    return Outcome(tuple(judgements), tuple(samples), tuple(facts))


def _load(laboratory: Laboratory, size: float, database: str) -> None:
    """Make the tables in a database of their own, and views of bare Spark on the same rows."""
    directory = laboratory.directory / database
    for form in ("csv", "parquet"):
        generate(directory / form, f"{size:g}", form)
    with laboratory.connect_gateway() as gateway:
        gateway.query(f"CREATE DATABASE {database}")
    with psycopg.connect(laboratory.gateway.address.conninfo(database), autocommit=True) as own:
        own.execute(SCHEMA.read_text(encoding="utf-8"))
        for table in TABLES:
            _copy(own, table, directory / "csv" / f"{table}.csv")
        own.execute("VACUUM")
        columns = {
            table: [
                column.name for column in own.execute(f"TABLE {table} LIMIT 0").description or ()
            ]
            for table in TABLES
        }
    for table in TABLES:
        view = f"{database}_{table}"
        plain = directory / "parquet" / f"{table}.parquet"
        laboratory.bare_spark.show(view, plain, {name: name for name in columns[table]})
        laboratory.bare_spark.store(view, directory / "plain" / table)


def _copy(own: psycopg.Connection, table: str, file: Path) -> None:
    with (
        file.open("rb") as source,
        own.cursor().copy(f"COPY {table} FROM STDIN (FORMAT csv, HEADER)") as copy,
    ):
        while chunk := source.read(COPY_CHUNK_BYTES):
            copy.write(chunk)


def _measure(
    laboratory: Laboratory, scale: float, database: str, queries: Mapping[str, str]
) -> dict[str, Pair]:
    """Return the samples of each query, every round in another order of the two."""
    ours: dict[str, list[float]] = {name: [] for name in queries}
    theirs: dict[str, list[float]] = {name: [] for name in queries}
    with Client(laboratory.gateway.address, database) as gateway:
        gateway.query("SET gateway.executor TO spark")
        for number in range(-WARM_UP_ROUNDS[scale], laboratory.repetitions(ROUNDS[scale])):
            for name, text in queries.items():
                plain = _plain(text, database)
                if number % 2:
                    own, bare = gateway.time(text), laboratory.bare_spark.time(plain)
                else:
                    bare, own = laboratory.bare_spark.time(plain), gateway.time(text)
                if number >= 0:
                    ours[name].append(own)
                    theirs[name].append(bare)
        for name, text in queries.items():
            rows = (
                len(gateway.query(text)),
                len(laboratory.bare_spark.query(_plain(text, database))),
            )
            if rows[0] != rows[1]:
                raise AnswerError(f"{name}: {rows[0]} rows, bare Spark {rows[1]}")
    return {
        name: (
            milliseconds(f"gateway, {name}, {database}", ours[name]),
            milliseconds(f"bare Spark, {name}, {database}", theirs[name]),
        )
        for name in queries
    }


def _plain(text: str, database: str) -> str:
    """Return a query of the tables as one of the views of bare Spark."""
    views = ", ".join(f"{table} AS (SELECT * FROM {database}_{table})" for table in TABLES)
    text = text.strip()
    has_own = text.upper().startswith("WITH ")
    return f"WITH {views}, {text[len('WITH ') :]}" if has_own else f"WITH {views} {text}"
