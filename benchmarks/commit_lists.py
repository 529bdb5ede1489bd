"""List the commits of a table and take one back, among a hundred and among ten thousand."""

from benchmarks.client import AnswerError, Client
from benchmarks.datasets import Dataset, load_gateway, load_postgres
from benchmarks.laboratory import Laboratory
from benchmarks.outcomes import Judgement, Outcome, Samples, milliseconds

TITLE = "Listing commits and taking one back, among 100 and among 10,000"

ROWS = 200_000
FEW, MANY = 100, 10_000
ROUNDS = 15
WARM_UP = 3

AIM = 1.5
"""Among 10,000 ÷ among 100."""

TABLE = "written"

WRITE = f"UPDATE {TABLE} SET amount = amount + 1 WHERE id = $1"
LIST = f"commits show (table = '{TABLE}', limit = 10)"
LATEST = f"commits show (table = '{TABLE}', limit = 1)"

INT8 = 20


def run(laboratory: Laboratory) -> Outcome:
    """Measure among few commits, write more of them, measure again."""
    dataset = Dataset(TABLE, laboratory.rows(ROWS))
    load_postgres(laboratory.postgres.address, dataset)
    load_gateway(laboratory.postgres.address, laboratory.gateway.address, dataset)
    found: dict[int, tuple[Samples, Samples]] = {}
    with laboratory.connect_gateway() as gateway:
        gateway.prepare("write", WRITE, [INT8])
        written = 0
        for full in (FEW, MANY):
            number = full if full == FEW else max(2 * FEW, round(full * min(laboratory.scale, 1)))
            for turn in range(written, number):
                gateway.ask_prepared("write", str(1 + turn % FEW))
            written = number
            found[full] = _times(laboratory, gateway, number)
    judgements = [
        Judgement(f"{what}, among {MANY:,} ÷ among {FEW}", many.median / few.median, AIM)
        for what, few, many in zip(
            ("commits show", "rollback of a commit"), found[FEW], found[MANY], strict=True
        )
    ]
    return Outcome(
        tuple(judgements),
        tuple(samples for pair in found.values() for samples in pair),
        (
            f"Each commit is an UPDATE of one of {FEW} rows of {dataset.rows:,}.",
            "The latest is taken back.",
            f"{written:,} commits at the end, and those that rollbacks are.",
        ),
    )


def _times(laboratory: Laboratory, gateway: Client, commits: int) -> tuple[Samples, Samples]:
    lists, rollbacks = [], []
    for turn in range(-WARM_UP, laboratory.repetitions(ROUNDS)):
        gateway.ask_prepared("write", str(1 + turn % FEW))
        listed = gateway.ask(LIST)
        if len(listed.rows) != 10:
            raise AnswerError(f"{len(listed.rows)} commits are listed")
        ((name, *_),) = gateway.query(LATEST)
        seconds = gateway.time(f"SELECT gateway.rollback_commit('{name}')")
        if turn >= 0:
            lists.append(listed.seconds)
            rollbacks.append(seconds)
    return (
        milliseconds(f"gateway, commits show among {commits:,}", lists),
        milliseconds(f"gateway, rollback of a commit among {commits:,}", rollbacks),
    )
