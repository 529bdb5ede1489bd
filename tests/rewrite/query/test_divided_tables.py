"""The statement files again, over tables of which some rows are in the base, others more recent."""

from collections.abc import Iterator

import pytest

from rewrite.results import SourcePart
from tests.rewrite.query.test_statements import FILES, cases
from tests.support.rewrite_oracle import Oracle
from tests.support.sampling import each
from tests.support.statements import Statement

pytestmark = [pytest.mark.catalog, pytest.mark.spark, pytest.mark.slow]

VERSIONS = "now() as version_number, null::timestamptz as subsequent_version_number"
IDENTIFIED = f"(select *, {VERSIONS}, row_number() over () as row_identity from n) q"


@pytest.fixture(scope="module", autouse=True)
def _tables(oracle: Oracle) -> Iterator[None]:
    oracle.execute((FILES / "schema.sql").read_text())
    for table in ("a", "b", "c"):
        oracle.parts[oracle.relid(table)] = {
            SourcePart.BASE: f"select *, {VERSIONS} from {table} where k % 2 = 0",
            SourcePart.RECENT: f"select *, {VERSIONS} from {table} where k % 2 = 1",
        }
    oracle.parts[oracle.relid("n")] = {
        SourcePart.BASE: f"select * from {IDENTIFIED} where row_identity < 3",
        SourcePart.RECENT: f"select * from {IDENTIFIED} where row_identity >= 3",
    }
    yield
    oracle.parts.clear()


# Over tables that are not divided, test_statements runs all of them every time.
@pytest.mark.parametrize(
    "statement", [*cases("joins"), *each(3, cases("sublinks", "set_operations"))]
)
def test_query(oracle: Oracle, statement: Statement) -> None:
    oracle.check(statement.sql, ordered=statement.directive("ordered") is not None)


@pytest.mark.parametrize("statement", cases("changes"))
def test_change(oracle: Oracle, statement: Statement) -> None:
    oracle.check_change(statement.sql)
