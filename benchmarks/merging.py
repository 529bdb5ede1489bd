"""Merge few and many rows into a large tiered table, beside what Spark does without row versions.

A table of plain Parquet files is changed by writing it anew: that is what the rewrite does.
"""

import shutil

from benchmarks.client import Client
from benchmarks.laboratory import Laboratory
from benchmarks.outcomes import Judgement, Outcome, Samples, milliseconds
from benchmarks.point_select import require_equal

TITLE = "MERGE into 5 million rows of a tiered table, against a rewrite by bare Spark"

ROUNDS = 3
READS = 7
WARM_UP = 2
MOST_TEMPORARY = 200_000
"""Rows of a temporary table that Spark is given; more are merged from another tiered table."""

SHARES = {"0.001 %": 0.00001, "0.1 %": 0.001, "1 %": 0.01, "10 %": 0.1}
"""How many rows are merged, of the table's; each second one of them is new."""

READ_AIM = 2.0
"""0.1 % ÷ what has to be read for it: a row by key, and the files with the keys."""

REWRITE_AIM = 0.2
"""1 % ÷ the rewrite."""

VIEW = "merged_base"
"""What bare Spark calls the table's own files."""

CHANGES = "CREATE {kind} TABLE {name} (id bigint PRIMARY KEY, amount numeric(12,2))"

FILL = """
    INSERT INTO {name}
    SELECT CASE WHEN i % 2 = 0 THEN {first} + i ELSE {new} + i END, 3.50
    FROM generate_series(1::bigint, {rows}) AS i
"""
"""Keys next to each other, as what changes in a table of events; and keys after the last one."""

MERGE = """
    MERGE INTO {table} AS t USING {name} AS s ON t.id = s.id
    WHEN MATCHED THEN UPDATE SET amount = coalesce(t.amount, 0) + s.amount
    WHEN NOT MATCHED THEN
        INSERT VALUES (s.id, 1, 'fee', s.amount, '2025-03-04 05:06:07+00', 'merged')
"""

REWRITE = """
    SELECT coalesce(t.id, s.id) AS id, coalesce(t.account, 1) AS account,
           coalesce(t.kind, 'fee') AS kind,
           CASE WHEN s.id IS NULL THEN t.amount
                ELSE cast(coalesce(t.amount, 0) + s.amount AS decimal(12,2)) END AS amount,
           coalesce(t.created_at, timestamp '2025-03-04 05:06:07+00') AS created_at,
           coalesce(t.note, 'merged') AS note
    FROM {view} AS t FULL JOIN (
        SELECT CASE WHEN i % 2 = 0 THEN {first} + i ELSE {new} + i END AS id,
               cast(3.50 AS decimal(12,2)) AS amount
        FROM (SELECT explode(sequence(1L, {rows}L)) AS i)
    ) AS s ON t.id = s.id
"""

CHECKED = "SELECT count(*), sum(amount), max(id), sum(account) FROM {table}"


def run(laboratory: Laboratory) -> Outcome:
    """Merge each share into the same table, other rows each time, and rewrite its first state."""
    dataset = laboratory.merged
    laboratory.show_base(dataset, VIEW)
    with laboratory.connect_gateway() as gateway, laboratory.connect_postgres() as postgres:
        point, scan = _reads(gateway, dataset.table, dataset.rows)
        merges = _merges(laboratory, gateway, postgres)
    rewritten = _rewrites(laboratory, dataset.rows)
    tenth, hundredth = (merges[label][0].median for label in ("0.1 %", "1 %"))
    return Outcome(
        (
            Judgement(
                "MERGE of 0.1 % ÷ point SELECT and pruned scan",
                tenth / (point.median + scan.median),
                READ_AIM,
            ),
            Judgement("MERGE of 1 % ÷ rewrite", hundredth / rewritten.median, REWRITE_AIM),
        ),
        (*(samples for pair in merges.values() for samples in pair), point, scan, rewritten),
        (
            f"{dataset.rows:,} rows in files.",
            "The rows to merge are in a temporary table, those of 10 % in a tiered one.",
            "Half of them are there, next to each other, half are new; no row is merged twice.",
            "Reads were measured before, of the compacted table.",
            "The rewrite is of 1 %, to Parquet files of its own.",
        ),
    )


def _merges(
    laboratory: Laboratory, gateway: Client, postgres: Client
) -> dict[str, tuple[Samples, Samples]]:
    """Return for each share how long it took the gateway, and PostgreSQL."""
    dataset = laboratory.merged
    found: dict[str, tuple[Samples, Samples]] = {}
    first, new = 0, dataset.rows
    for label, share in SHARES.items():
        rows = max(2, round(dataset.rows * share))
        kind = "TEMPORARY" if rows <= MOST_TEMPORARY else ""
        taken: dict[str, list[float]] = {"gateway": [], "PostgreSQL": []}
        for turn in range(laboratory.repetitions(ROUNDS)):
            name = f"changes_{len(found)}_{turn}"
            keys = {"first": first, "new": new, "rows": rows}
            first, new = first + rows, new + rows
            for client, times in zip((gateway, postgres), taken.values(), strict=True):
                client.query(CHANGES.format(kind=kind, name=name))
                client.query(FILL.format(name=name, **keys))
                times.append(client.time(MERGE.format(table=dataset.table, name=name)))
        require_equal(gateway, postgres, CHECKED.format(table=dataset.table))
        ours, theirs = (
            milliseconds(f"{server}, MERGE of {label}", times) for server, times in taken.items()
        )
        found[label] = (ours, theirs)
    return found


def _reads(gateway: Client, table: str, last: int) -> tuple[Samples, Samples]:
    """Return what it takes to read a row, and the rows between two keys, others each time."""
    rows = round(last * SHARES["0.1 %"])
    points: list[float] = []
    scans: list[float] = []
    for turn in range(-WARM_UP, READS):
        if not turn:
            points, scans = [], []
        first = (turn + WARM_UP) * last // (READS + WARM_UP) + 1
        points.append(gateway.time(f"SELECT * FROM {table} WHERE id = {first}"))
        scans.append(
            gateway.time(
                f"SELECT sum(amount) FROM {table} WHERE id BETWEEN {first} AND {first + rows}"
            )
        )
    return (
        milliseconds("gateway, point SELECT", points),
        milliseconds("gateway, scan of the keys of 0.1 %", scans),
    )


def _rewrites(laboratory: Laboratory, table_rows: int) -> Samples:
    taken = []
    for turn in range(laboratory.repetitions(ROUNDS)):
        sql = REWRITE.format(
            view=VIEW,
            first=(turn + 1) * table_rows // (ROUNDS + 2),
            new=table_rows,
            rows=round(table_rows * SHARES["1 %"]),
        )
        directory = laboratory.directory / "rewritten"
        taken.append(laboratory.bare_spark.time_rewrite(sql, directory))
        shutil.rmtree(directory)
    return milliseconds("bare Spark, rewrite with 1 % merged", taken)
