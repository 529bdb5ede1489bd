"""Records of statement files, run on PostgreSQL and on the gateway, that must agree."""

from dataclasses import replace

import pytest

from tests.support.fix_server import Pair
from tests.support.sql_fixtures import Client, Record, disagreements

SPARK_ALONE = "Spark alone"
"""What the reason of a divergence begins with that is there only when Spark is asked for."""


def without_divergence(record: Record, beginning: str) -> Record:
    """Return a record as it is where divergences whose reasons begin so are none."""
    diverges = record.divergence is not None and record.divergence.reason.startswith(beginning)
    return replace(record, divergence=None) if diverges else record


def check(schema: str, records: list[Record], pair: Pair, *, executor: str = "auto") -> None:
    """Fail where the two can be told apart; both run the records in a schema of their own."""
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
