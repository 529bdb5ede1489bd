"""Take files in that others have written: plain ones as a table, and a journal."""

import shutil
from pathlib import Path

from benchmarks.client import AnswerError, Client
from benchmarks.laboratory import Laboratory
from benchmarks.outcomes import Judgement, Outcome, Samples, milliseconds

TITLE = "Files of others: CONVERT in place, and journals of the convention, against bare Spark"

ROWS = 5_000_000
KEYS = 1_000_000
VERSIONS = 5
ROUNDS = 3
READS = 7

WARM_UPS = 2
"""Reads of a journal that are not counted."""

CONVERT_AIM = 2.0
"""All rows ÷ a tenth of them."""

JOURNAL_AIM = 1.1

PLAIN = """
    SELECT id, cast(id * 7919 % 100003 AS int) AS account, id * 104729 % 10000000 / 100 AS amount
    FROM (SELECT explode(sequence(1L, {rows}L)) AS id)
"""

VERSIONED = """
    SELECT id, cast(id * 7919 % 100003 AS int) AS account, id * v % 9973 AS amount,
           v AS version_number,
           CASE WHEN v = {versions} AND id % 100 = 0 THEN v END AS subsequent_version_number
    FROM (SELECT explode(sequence(1L, {keys}L)) AS id),
         (SELECT explode(sequence(1L, {versions}L)) AS v)
"""
"""A row in a hundred is deleted by its last version."""

CURRENT = """
    SELECT id, account, amount
    FROM (SELECT *, max(version_number) OVER (PARTITION BY id) AS latest FROM {view})
    WHERE version_number = latest AND subsequent_version_number IS NULL
"""
"""The convention's own query for the rows that are there."""

READ = "SELECT count(*), sum(account), sum(amount) FROM {source}"


def run(laboratory: Laboratory) -> Outcome:
    """Convert files of two sizes in turn, then read a journal by the gateway and by bare Spark."""
    directory = laboratory.allowed_directory
    with laboratory.connect_gateway() as gateway:
        few, all_rows = _conversions(laboratory, gateway, directory)
        ours, theirs = _journal_reads(laboratory, gateway, directory)
    return Outcome(
        (
            Judgement(
                "CONVERT in place, all rows ÷ a tenth",
                all_rows.median / few.median,
                CONVERT_AIM,
            ),
            Judgement(
                "journal of others, gateway ÷ bare Spark", ours.median / theirs.median, JOURNAL_AIM
            ),
        ),
        (few, all_rows, ours, theirs),
        (
            "Each CONVERT takes files of its own; their key is a bigint, and is checked.",
            f"The journal has {laboratory.rows(KEYS):,} keys with {VERSIONS} versions each.",
            "Bare Spark runs the convention's own window query, summed up as the gateway's is.",
        ),
    )


def _conversions(
    laboratory: Laboratory, gateway: Client, directory: Path
) -> tuple[Samples, Samples]:
    sizes = {"few": laboratory.rows(ROWS) // 10, "all": laboratory.rows(ROWS)}
    taken: dict[str, list[float]] = {name: [] for name in sizes}
    for name, rows in sizes.items():
        laboratory.bare_spark.time_rewrite(PLAIN.format(rows=rows), directory / name)
    for turn in range(-1, laboratory.repetitions(ROUNDS)):
        for name, rows in sizes.items():
            files = directory / f"{name}_{turn + 1}"
            shutil.copytree(directory / name, files)
            table = f"converted_{files.name}"
            seconds = gateway.time(f"CONVERT TO {table} FROM '{files}' KEY (id) IN PLACE")
            if gateway.query(f"SELECT count(*) FROM {table}") != [(str(rows),)]:
                raise AnswerError(f"{table} has not {rows} rows")
            gateway.query(f"DROP TABLE {table}")
            if turn >= 0:
                taken[name].append(seconds)
    few, all_rows = (
        milliseconds(f"gateway, CONVERT in place of {sizes[name]:,} rows", taken[name])
        for name in sizes
    )
    return few, all_rows


def _journal_reads(
    laboratory: Laboratory, gateway: Client, directory: Path
) -> tuple[Samples, Samples]:
    files, view = directory / "versions_journal", "versions"
    keys, bare = laboratory.rows(KEYS), laboratory.bare_spark
    bare.time_rewrite(VERSIONED.format(keys=keys, versions=VERSIONS), files)
    columns = ("id", "account", "amount", "version_number", "subsequent_version_number")
    bare.show(view, files, {name: name for name in columns})
    gateway.query(
        "CALL gateway.register_journal('versions', key => 'id', version_type => 'BIGINT',"
        f" location => '{files}')"
    )
    ours, theirs = READ.format(source="versions"), CURRENT.format(view=view)
    theirs = READ.format(source=f"({theirs})")
    answers = gateway.query(ours), bare.query(theirs)
    if answers[0] != answers[1] or answers[0][0][0] != str(keys - keys // 100):
        raise AnswerError(f"gateway {answers[0]}, bare Spark {answers[1]}")
    taken: dict[str, list[float]] = {"gateway": [], "bare Spark": []}
    for turn in range(-WARM_UPS, laboratory.repetitions(READS)):
        one = {"gateway": gateway.time(ours), "bare Spark": bare.time(theirs)}
        for server, seconds in one.items() if turn >= 0 else ():
            taken[server].append(seconds)
    gateway_times, bare_times = (
        milliseconds(f"{server}, aggregate over the journal", times)
        for server, times in taken.items()
    )
    return gateway_times, bare_times
