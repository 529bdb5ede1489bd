"""Which MERGE has nothing to do, and evaluates nothing that could be noticed."""

import pytest

from rewrite.idle_merges import is_idle
from rewrite.pipeline import parse_tree
from tests.support.rewrite_oracle import Oracle

pytestmark = pytest.mark.catalog

TABLES = """
create table idle (a int primary key, b int);
create table idle_source (a int, b int);
create sequence idle_numbers;
create view idle_view as select a, b from idle where b > 0;
create view idle_sum as select a, b + 1 as b from idle;
"""

JOINED = "merge into idle_view t using idle_source s on t.a = s.a"


@pytest.fixture(scope="module", autouse=True)
def _tables(oracle: Oracle) -> None:
    oracle.execute(TABLES)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (f"{JOINED} when matched then do nothing", True),
        (f"{JOINED} when matched and s.b > 3 or t.b is null then do nothing", True),
        (f"{JOINED} when not matched by source then do nothing returning s.b / 0", True),
        (f"{JOINED} when matched and s.b / t.b > 3 then do nothing", False),
        (f"{JOINED} when matched and nextval('idle_numbers') > 3 then do nothing", False),
        (f"{JOINED} when matched and exists (select from idle) then do nothing", False),
        (f"{JOINED} when matched then do nothing when not matched then insert values (1)", False),
        (f"{JOINED} when matched then delete", False),
        ("merge into idle_sum t using idle t2 on t.a = t2.a when matched then do nothing", False),
        ("select from idle", False),
    ],
)
def test_nothing_is_done_and_nothing_fails(oracle: Oracle, sql: str, *, expected: bool) -> None:
    (query,) = parse_tree(oracle.analyse(sql)[0])
    assert is_idle(query) is expected
