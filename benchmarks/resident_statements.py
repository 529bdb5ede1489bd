"""Run short statements on resident tables, in each of the three ways clients send them."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from benchmarks import datasets, residency
from benchmarks.client import Answer, AnswerError, Client
from benchmarks.datasets import Dataset
from benchmarks.laboratory import POSTGRES, RESIDENT_GATEWAY, Laboratory
from benchmarks.outcomes import Judgement, Outcome, Samples, milliseconds
from benchmarks.point_select import require_equal

TITLE = "Statements on resident tables of 1,000 and 100,000 rows, against PostgreSQL"

SIZES = {"small": 1_000, "large": 100_000}
"""Rows by name of a table. None grows past its size: more than the largest would be tiered."""
BLOCK = 20
"""Statements one server runs before it is the other's turn."""
BLOCKS = 20
WARM_UP_BLOCKS = 2

BIGINT_OID = 20

STATEMENTS: Mapping[str, str] = {
    "SELECT by key": "SELECT * FROM {table} WHERE id = $1",
    "UPDATE by key": "UPDATE {table} SET amount = amount + 1, account = 17 WHERE id = $1",
    "DELETE by key": "DELETE FROM {table} WHERE id = $1",
    "INSERT": """
        INSERT INTO {table} VALUES ($1, 17, 'order', 12.50, '2025-03-04 05:06:07+00', 'new')""",
    "join by key range": """
        SELECT a.id, a.kind, b.kind, b.amount FROM {table} a JOIN {other} b ON b.id = a.id
        WHERE a.id BETWEEN $1 AND $1 + 9 ORDER BY a.id""",
    "aggregate with GROUP BY": """
        SELECT kind, count(*), sum(amount), min(created_at) FROM {table}
        WHERE account <> $1 GROUP BY kind ORDER BY kind""",
}
"""Each with one bigint parameter, which is a key. INSERT puts back what DELETE took away."""

MODES = {"simple": 4.0, "extended": 4.0, "prepared": 3.0}
"""Protocol modes with the aims for how many times as long as PostgreSQL the gateway may take."""

Ask = Callable[[Client, int], Answer]
"""Sends one statement with a key."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One statement on tables of one size in one protocol mode."""

    mode: str
    statement: str
    rows: int
    ask: Ask
    seconds: Mapping[str, list[float]] = field(
        default_factory=lambda: {RESIDENT_GATEWAY: [], POSTGRES: []}
    )
    """Times of each server."""

    @property
    def label(self) -> str:
        """What is measured, in words."""
        return f"{self.statement}, {self.rows:,} rows, {self.mode}"

    @property
    def ratio(self) -> float:
        """How many times as long the gateway takes."""
        return median(self.seconds[RESIDENT_GATEWAY]) / median(self.seconds[POSTGRES])


def run(laboratory: Laboratory) -> Outcome:
    """Run the same statements on both servers in blocks, in turn, and compare all answers."""
    with (
        laboratory.connect_resident_gateway() as gateway,
        laboratory.connect_postgres() as postgres,
    ):
        clients = {RESIDENT_GATEWAY: gateway, POSTGRES: postgres}
        pairs = [_load(clients, name, laboratory.rows(size)) for name, size in SIZES.items()]
        tables = [dataset.table for pair in pairs for dataset in pair]
        residency.require(gateway, tables, residency.RESIDENT)
        cells = [cell for pair in pairs for cell in _cells(clients, *pair)]
        keys = random.Random(6)  # noqa: S311 - the same keys in every run
        for _ in range(WARM_UP_BLOCKS):
            _run_block(clients, cells, keys, counts=False)
        blocks = laboratory.repetitions(BLOCKS)
        before = laboratory.processor_times(RESIDENT_GATEWAY, POSTGRES)
        for _ in range(blocks):
            _run_block(clients, cells, keys, counts=True)
        count = blocks * BLOCK * len(cells)
        processor = laboratory.processor_fact(
            before, {RESIDENT_GATEWAY: count, POSTGRES: count}, "statement"
        )
        residency.require(gateway, tables, residency.RESIDENT)
        for table in tables:
            require_equal(gateway, postgres, f"SELECT * FROM {table} ORDER BY id")
        residency.require_lawful(gateway, tables)
    return Outcome(
        tuple(judgement for mode in MODES for judgement in _judge(mode, cells)),
        tuple(samples for cell in cells for samples in _samples(cell)),
        (
            f"Blocks of {BLOCK} statements, each on one server and then on the other.",
            (
                "Simple: a query string with the key in it. Extended: Parse, Bind, Execute and "
                "Sync for each statement. Prepared: Bind, Execute and Sync. Keys are text."
            ),
            "All answers were compared, and so were the tables at the end.",
            *(f"{name}: `{_one_line(text)}`." for name, text in STATEMENTS.items()),
            processor,
        ),
    )


def _load(clients: Mapping[str, Client], name: str, rows: int) -> tuple[Dataset, Dataset]:
    """Make two vacuumed and analysed tables of a size on both servers."""
    pair = Dataset(name, rows), Dataset(f"other_{name}", rows)
    for client in clients.values():
        for dataset in pair:
            datasets.create(client, dataset)
            datasets.fill(client, dataset)
            client.query(f"VACUUM ANALYZE {dataset.table}")
    clients[POSTGRES].query("CHECKPOINT")
    return pair


def _cells(clients: Mapping[str, Client], table: Dataset, other: Dataset) -> Iterator[Cell]:
    """Yield the statements on one size of tables in the order in which they run."""
    for mode in MODES:
        for name, text in STATEMENTS.items():
            sql = _one_line(text.format(table=table.table, other=other.table))
            prepared = f"{name}, {table.table}"
            if mode == "prepared":
                for client in clients.values():
                    client.prepare(prepared, sql, (BIGINT_OID,))
            yield Cell(mode, name, table.rows, _ask(mode, sql, prepared))


def _ask(mode: str, sql: str, prepared: str) -> Ask:
    if mode == "simple":
        return lambda client, key: client.ask(sql.replace("$1", str(key)))
    if mode == "extended":
        return lambda client, key: client.ask_unprepared(sql, (BIGINT_OID,), str(key))
    return lambda client, key: client.ask_prepared(prepared, str(key))


def _run_block(
    clients: Mapping[str, Client], cells: Sequence[Cell], chance: random.Random, *, counts: bool
) -> None:
    """Run each cell with some keys, which are the same for all statements of a size and mode.

    Raises:
        AnswerError: The servers answer differently.
    """
    keys: list[int] = []
    for number, cell in enumerate(cells):
        if number % len(STATEMENTS) == 0:
            keys = chance.sample(range(1, cell.rows + 1), BLOCK)
        order = list(clients)
        chance.shuffle(order)
        answers = {name: [cell.ask(clients[name], key) for key in keys] for name in order}
        for key, ours, theirs in zip(
            keys, answers[RESIDENT_GATEWAY], answers[POSTGRES], strict=True
        ):
            if ours.results != theirs.results:
                raise AnswerError(
                    f"{cell.label}, key {key}: gateway {ours.results[:3]}, "
                    f"PostgreSQL {theirs.results[:3]}"
                )
        for name, given in answers.items() if counts else ():
            cell.seconds[name].extend(answer.seconds for answer in given)


def _judge(mode: str, cells: Sequence[Cell]) -> tuple[Judgement, Judgement]:
    """Judge the worst statement of a protocol mode and the middle one."""
    own = [cell for cell in cells if cell.mode == mode]
    worst = max(own, key=lambda cell: cell.ratio)
    aim = MODES[mode]
    return (
        Judgement(
            f"{mode}, gateway ÷ PostgreSQL, worst p50 ({worst.statement}, {worst.rows:,} rows)",
            worst.ratio,
            aim,
        ),
        Judgement(
            f"{mode}, gateway ÷ PostgreSQL, p50, median of {len(own)} statements",
            median(cell.ratio for cell in own),
            aim,
        ),
    )


def _samples(cell: Cell) -> tuple[Samples, Samples]:
    return (
        milliseconds(f"gateway, {cell.label}", cell.seconds[RESIDENT_GATEWAY]),
        milliseconds(f"PostgreSQL, {cell.label}", cell.seconds[POSTGRES]),
    )


def _one_line(text: str) -> str:
    return " ".join(text.split())
