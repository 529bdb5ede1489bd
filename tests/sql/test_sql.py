"""Each file of statements runs on PostgreSQL and on the gateway, which must not be told apart.

Once with all tables tiered, where what is refused is marked in the files, and once with tables
resident, where nothing is refused. What Spark alone refuses, and PostgreSQL answers of few rows, is
marked as that. Files about statements on both kinds of tables say which tables become tiered.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support import compared
from tests.support.compared import SPARK_ALONE, without_divergence
from tests.support.fix_server import Pair
from tests.support.law import inconsistent
from tests.support.sql_fixtures import Record, read

pytestmark = [pytest.mark.server, pytest.mark.sampled(1)]

DIRECTORY = Path(__file__).parent

FILES = sorted(DIRECTORY.glob("*/*.test"))

REFUSED = DIRECTORY / "refused" / "refused.test"
"""What is refused on tiered tables alone."""

RESIDENT = DIRECTORY / "resident"
"""Files of what only resident tables can do."""

CHANGED = ("constraint", "delete", "merge", "transaction", "update", "view")
"""Directories of files about changes, which PostgreSQL would make of single rows."""

TWO_TIERS = DIRECTORY / "two_tiers"
"""Files about statements on tables of both kinds."""


OF_TIERED = ("single_rows", "two_tiers")
"""Directories of files about tiered tables; what resident ones do with such is in others."""

MANY_ROWS = frozenset(
    {
        "merge/drawn",
        "merge/large",
        "merge/moved_keys",
        "merge/several_columns",
        "update/moved_keys",
    }
)
"""Files about changes of many rows, which Spark makes without being asked for it."""


def test_files_of_many_rows_are_there() -> None:
    assert {name_of(path) for path in FILES} >= MANY_ROWS | LONG


def names_spark(path):
    """Whether there is something in a file that Spark answers in another way, or refuses."""
    return is_changed(path) or SPARK_ALONE in path.read_text()


LONG = frozenset({"insert/large_upserts", "merge/drawn", "merge/moved_keys"})
"""Files that take as long as twenty others, and are about what others show in part."""


def by_turns(paths, turn):
    """Let a file that Spark answers either way run in one of the two every time."""
    places = {p: place for place, p in enumerate(p for p in FILES if is_read_twice(p))}
    return [
        pytest.param(p, marks=pytest.mark.exhaustive)
        if places.get(p, turn) % 2 != turn or name_of(p) in LONG or (turn == 0 and is_quarter(p))
        else p
        for p in paths
    ]


def is_quarter(path):
    """Whether a file runs with resident tables every time, and not with what is tiered as well."""
    return is_of_both(path) and [p for p in FILES if is_of_both(p)].index(path) % 4 == 0


def is_read_twice(path):
    """Whether a file runs with and without being kept from PostgreSQL, and changes little."""
    return path.parent not in {RESIDENT, TWO_TIERS} and names_spark(path) and not is_changed(path)


def is_changed(path):
    """Whether PostgreSQL would make its changes if it is not kept from it."""
    return path.parent.name in CHANGED and name_of(path) not in MANY_ROWS


def is_of_both(path):
    """Whether a file is about what all tables can do."""
    return path.parent != RESIDENT and path != REFUSED and path.parent.name not in OF_TIERED


def name_of(path):
    return str(path.relative_to(DIRECTORY).with_suffix(""))


TIERED = by_turns([p for p in FILES if p.parent not in {RESIDENT, TWO_TIERS}], turn=0)
"""Files that run with tiered tables, whoever answers."""

ON_SPARK = by_turns([p for p in FILES if names_spark(p)], turn=1)
"""Files that run with tiered tables and Spark's answers."""

ALL_RESIDENT = [
    *(p for p in FILES if p.parent == RESIDENT),
    # PostgreSQL answers, and the gateway only passes on: a quarter of them would show it.
    *(
        p if is_quarter(p) else pytest.param(p, marks=pytest.mark.exhaustive)
        for p in FILES
        if is_of_both(p)
    ),
    *(pytest.param(p, marks=pytest.mark.exhaustive) for p in FILES if p.parent.name in OF_TIERED),
]
"""Files that run with resident tables."""


def test_each_file_runs_every_time_in_some_way() -> None:
    run = {path for path in [*TIERED, *ON_SPARK, *ALL_RESIDENT] if isinstance(path, Path)}
    left_out = {name_of(path) for path in FILES if path.parent != TWO_TIERS and path not in run}
    assert left_out <= LONG


@pytest.mark.parametrize("path", TIERED, ids=name_of)
def test_gateway_answers_as_postgresql(path: Path, shared_pair: Pair) -> None:
    check(path, [without_divergence(record, SPARK_ALONE) for record in read(path)], shared_pair)


@pytest.mark.parametrize("path", ON_SPARK, ids=name_of)
def test_spark_answers_as_postgresql(path: Path, shared_pair: Pair) -> None:
    check(path, read(path), shared_pair, executor="spark")


@pytest.mark.parametrize("path", ALL_RESIDENT, ids=name_of)
def test_resident_tables_are_postgresqls(path: Path, resident_pair: Pair) -> None:
    records = [record for record in read(path) if record.sqlstate != "0A000"]
    records = [resident(record) for record in records if record.kind != "tiered"]
    check(path, records, resident_pair)
    schema = name_of(path).replace("/", "_")
    assert inconsistent(resident_pair.gateway, resident_pair.database, schema) == {}


# A file is about one kind of statement over both tiers, and the ways they go are few.
@pytest.mark.sampled(2)
@pytest.mark.parametrize("path", [p for p in FILES if p.parent == TWO_TIERS], ids=name_of)
def test_tables_of_both_tiers(path: Path, two_tiers_pair: Pair) -> None:
    check(path, read(path), two_tiers_pair)
    schema = name_of(path).replace("/", "_")
    assert inconsistent(two_tiers_pair.gateway, two_tiers_pair.database, schema) == {}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("tables", [("author", "genre"), ("book", "shelf"), ("book",), ("shelf",)])
def test_references_are_deferred_between_tiers(tables, two_tiers_pair: Pair) -> None:
    path = TWO_TIERS / "deferred.test"
    named = "\n".join(tables)
    records = [replace(r, sql=named) if r.kind == "tiered" else r for r in read(path)]
    check(path, records, two_tiers_pair)
    schema = name_of(path).replace("/", "_")
    assert inconsistent(two_tiers_pair.gateway, two_tiers_pair.database, schema) == {}


def resident(record: Record) -> Record:
    """Return a record as it is with resident tables: what is refused on Spark agrees."""
    divergence = record.divergence
    spark_only = divergence is not None and not divergence.reason.startswith("always")
    return replace(record, divergence=None) if spark_only else record


def check(path: Path, records: list[Record], pair: Pair, *, executor: str = "auto") -> None:
    compared.check(name_of(path).replace("/", "_"), records, pair, executor=executor)
