"""Read and change a table of a thousand partitions with ten segments each, beside one without any.

With ``--scale 10`` there are ten thousand partitions.
"""

from benchmarks.client import AnswerError, Client
from benchmarks.laboratory import Laboratory
from benchmarks.outcomes import Judgement, Outcome, Samples, milliseconds
from tests.support.servers import GatewayProcess

TITLE = "A tiered table of 1,000 partitions with 10 segments each, against one without partitions"

PARTITIONS = 1_000
SEGMENTS = 10
ROWS = 100
"""In each segment."""
READS = 15
WARM_UP = 3
CHANGES = 3

PLANNING_AIM = 2.0
CHANGE_AIM = 1.3

TREE, WHOLE = "parted", "whole"
COLUMNS = "part integer, id bigint, amount numeric(12,2), note text, PRIMARY KEY (part, id)"
FILL = """
    INSERT INTO {table}
    SELECT p, {first} + i, i * 7919 % 10000, 'note ' || md5(i::text)
    FROM generate_series(1, {parts}) AS p, generate_series(1, {rows}) AS i
"""
READ = "SELECT count(*), sum(amount) FROM {table} WHERE part = {part}"
CHANGE = "UPDATE {table} SET amount = amount + 1 WHERE id % 7 = {rest}"
CHECKED = "SELECT count(*), sum(amount), max(id) FROM {table}"


def run(laboratory: Laboratory) -> Outcome:
    """Make both tables, then plan, read and change them in turn."""
    parts = max(20, round(PARTITIONS * laboratory.scale))
    options = ("--resident-rows=0", f"--inline-rows={ROWS // 2}")
    with (
        GatewayProcess(laboratory.directory / "trees", *options) as process,
        Client(process.address) as gateway,
    ):
        made = _make(gateway, parts)
        planning = _alternating(laboratory, gateway, parts, "EXPLAIN ")
        reading = _alternating(laboratory, gateway, parts, "")
        changing = _changes(gateway)
        answers = [gateway.query(CHECKED.format(table=table)) for table in (TREE, WHOLE)]
        if answers[0] != answers[1]:
            raise AnswerError(f"with partitions {answers[0]}, without {answers[1]}")
    return Outcome(
        (
            Judgement(
                "planning a pruned read, with ÷ without partitions",
                planning[0].median / planning[1].median,
                PLANNING_AIM,
            ),
            Judgement(
                "UPDATE over all partitions ÷ without partitions",
                changing[0].median / changing[1].median,
                CHANGE_AIM,
            ),
        ),
        (*planning, *reading, *changing, made),
        (f"{parts:,} partitions, {SEGMENTS} segments of {ROWS} rows in each.",),
    )


def _make(gateway: Client, parts: int) -> Samples:
    """Make both tables; return what each statement took that made a partition."""
    gateway.query(f"CREATE TABLE {WHOLE} ({COLUMNS})")
    gateway.query(f"CREATE TABLE {TREE} ({COLUMNS}) PARTITION BY LIST (part)")
    taken = [
        gateway.time(f"CREATE TABLE {TREE}_{part} PARTITION OF {TREE} FOR VALUES IN ({part})")
        for part in range(1, parts + 1)
    ]
    for segment in range(SEGMENTS):
        for table in (TREE, WHOLE):
            gateway.query(FILL.format(table=table, first=segment * ROWS, parts=parts, rows=ROWS))
    written = f"SELECT count(*) FROM gateway.commit_files WHERE table_name LIKE '{TREE}\\_%'"
    ((segments,),) = gateway.query(written)
    if segments != str(parts * SEGMENTS):
        raise AnswerError(f"{segments} segments")
    return milliseconds("gateway, CREATE TABLE … PARTITION OF", taken)


def _alternating(
    laboratory: Laboratory, gateway: Client, parts: int, before: str
) -> tuple[Samples, Samples]:
    taken: dict[str, list[float]] = {TREE: [], WHOLE: []}
    for turn in range(-WARM_UP, laboratory.repetitions(READS)):
        for table, times in taken.items():
            read = READ.format(table=table, part=1 + turn * 37 % parts)
            seconds = gateway.time(before + read)
            if turn >= 0:
                times.append(seconds)
    what = "planning a pruned read" if before else "pruned read"
    return _named(what, taken)


def _changes(gateway: Client) -> tuple[Samples, Samples]:
    taken: dict[str, list[float]] = {TREE: [], WHOLE: []}
    for rest in range(-1, CHANGES):
        for table, times in list(taken.items())[:: 1 if rest % 2 else -1]:
            seconds = gateway.time(CHANGE.format(table=table, rest=rest % 7))
            if rest >= 0:
                times.append(seconds)
    return _named("UPDATE of a seventh of all rows", taken)


def _named(what: str, taken: dict[str, list[float]]) -> tuple[Samples, Samples]:
    return (
        milliseconds(f"gateway, {what}, with partitions", taken[TREE]),
        milliseconds(f"gateway, {what}, without", taken[WHOLE]),
    )
