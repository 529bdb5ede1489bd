"""Each file of statements runs on PostgreSQL and on the gateway, which must not be told apart.

Once with all tables on Spark, where what is refused is marked in the files, and once with tables
resident, where nothing is refused. Files about statements on both kinds of tables say which tables
become tiered.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.fix_server import Pair
from tests.support.law import inconsistent
from tests.support.sql_fixtures import Client, Record, disagreements, read

pytestmark = pytest.mark.server

DIRECTORY = Path(__file__).parent

FILES = sorted(DIRECTORY.glob("*/*.test"))

REFUSED = DIRECTORY / "refused" / "refused.test"
"""What is refused on tiered tables alone."""

RESIDENT = DIRECTORY / "resident"
"""Files of what only resident tables can do."""

CHANGED = ("constraint", "delete", "merge", "transaction", "update", "view")
"""Directories of files about changes, which PostgreSQL would make of single rows."""

SPARK_ALONE = "Spark alone"
"""What the reason of a divergence begins with that is there only when Spark is asked for."""

TWO_TIERS = DIRECTORY / "two_tiers"
"""Files about statements on tables of both kinds."""


def name_of(path):
    return str(path.relative_to(DIRECTORY).with_suffix(""))


@pytest.mark.parametrize(
    "path", [p for p in FILES if p.parent not in {RESIDENT, TWO_TIERS}], ids=name_of
)
def test_gateway_answers_as_postgresql(path: Path, shared_pair: Pair) -> None:
    check(path, [without_divergence(record, SPARK_ALONE) for record in read(path)], shared_pair)


@pytest.mark.parametrize("path", [p for p in FILES if p.parent.name in CHANGED], ids=name_of)
def test_spark_answers_as_postgresql(path: Path, shared_pair: Pair) -> None:
    check(path, read(path), shared_pair, executor="spark")


@pytest.mark.parametrize("path", [p for p in FILES if p != REFUSED], ids=name_of)
def test_resident_tables_are_postgresqls(path: Path, resident_pair: Pair) -> None:
    records = [record for record in read(path) if record.sqlstate != "0A000"]
    records = [resident(record) for record in records if record.kind != "tiered"]
    check(path, records, resident_pair)
    schema = name_of(path).replace("/", "_")
    assert inconsistent(resident_pair.gateway, resident_pair.database, schema) == {}


@pytest.mark.parametrize("path", [p for p in FILES if p.parent == TWO_TIERS], ids=name_of)
def test_tables_of_both_tiers(path: Path, two_tiers_pair: Pair) -> None:
    check(path, read(path), two_tiers_pair)
    schema = name_of(path).replace("/", "_")
    assert inconsistent(two_tiers_pair.gateway, two_tiers_pair.database, schema) == {}


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


def without_divergence(record: Record, beginning: str) -> Record:
    """Return a record as it is where divergences whose reasons begin so are none."""
    diverges = record.divergence is not None and record.divergence.reason.startswith(beginning)
    return replace(record, divergence=None) if diverges else record


def check(path: Path, records: list[Record], pair: Pair, *, executor: str = "auto") -> None:
    schema = name_of(path).replace("/", "_")
    setup = (
        f"SET search_path = {schema}",
        "SET TimeZone = 'UTC'",
        f"SET gateway.executor = '{executor}'",
    )
    for server in (pair.plain, pair.gateway):
        server.execute(
            f"DROP SCHEMA IF EXISTS {schema} CASCADE",
            f"CREATE SCHEMA {schema}",
            database=pair.database,
        )
    plain = Client(pair.plain.conninfo(pair.database), setup)
    gateway = Client(pair.gateway.conninfo(pair.database), setup)
    found = []
    try:
        for record in records:
            try:
                wrong = disagreements(record, plain, gateway)
            except AssertionError as error:
                found.append(f"line {record.line}: {error}; the rest did not run")
                break
            found += [f"line {record.line}: {record.sql}\n    {text}" for text in wrong]
    finally:
        plain.close()
        gateway.close()
    if found:
        pytest.fail("\n".join(found), pytrace=False)
