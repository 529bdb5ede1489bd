"""Each file of statements runs on PostgreSQL and on the gateway, which must not be told apart."""

from pathlib import Path

import pytest

from tests.support.fix_server import Pair
from tests.support.sql_fixtures import Client, disagreements, read

pytestmark = pytest.mark.server

DIRECTORY = Path(__file__).parent

FILES = sorted(DIRECTORY.glob("*/*.test"))


def name_of(path):
    return str(path.relative_to(DIRECTORY).with_suffix(""))


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_gateway_answers_as_postgresql(path: Path, shared_pair: Pair) -> None:
    schema = name_of(path).replace("/", "_")
    setup = (f"SET search_path = {schema}", "SET TimeZone = 'UTC'")
    for server in (shared_pair.plain, shared_pair.gateway):
        server.execute(
            f"DROP SCHEMA IF EXISTS {schema} CASCADE",
            f"CREATE SCHEMA {schema}",
            database=shared_pair.database,
        )
    plain = Client(shared_pair.plain.conninfo(shared_pair.database), setup)
    gateway = Client(shared_pair.gateway.conninfo(shared_pair.database), setup)
    found = []
    try:
        for record in read(path):
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
