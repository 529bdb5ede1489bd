"""Counts of whole tables: known where nothing is newer than the base, else counted."""

from collections.abc import Iterator

import pytest

from rewrite.results import SourcePart
from tests.support.rewrite_oracle import Oracle

pytestmark = [pytest.mark.catalog, pytest.mark.spark]

AT = "timestamptz '2024-01-01'"
VERSIONS = "select q.*, {} as version_number, {} as subsequent_version_number from ({}) q"
NEVER = "null::timestamptz"
BASE = VERSIONS.format(AT, NEVER, "select * from counted where id <= 90")
NEWER = VERSIONS.format(f"{AT} + interval '1 h'", NEVER, "select * from counted where id > 80")
GONE = VERSIONS.format(f"{AT} + interval '2 h'", f"{AT} + interval '2 h'", "select 1000, 1, 'gone'")
LAYOUTS = {
    "base": {SourcePart.BASE: VERSIONS.format(AT, NEVER, "table counted")},
    "both": {SourcePart.BASE: BASE, SourcePart.RECENT: f"{NEWER} union all {GONE}"},
}


@pytest.fixture(scope="module", autouse=True)
def _table(oracle: Oracle) -> Iterator[None]:
    oracle.execute("create table counted (id int primary key, x int, s text not null)")
    oracle.execute("create table uncounted (id int primary key)")
    oracle.execute(
        "insert into counted select i, nullif(i % 3, 0), i from generate_series(1, 100) i"
    )
    yield
    oracle.parts = {}
    oracle.execute("drop table counted, uncounted")


KNOWN = [
    "select count(*) from counted",
    "select count(id), count(*) * 2, 'x' from counted c",
    "select count(*) from uncounted",
    "select count(*) from counted having count(*) > 99",
    "select count(*) from counted having count(*) > 100",
    "select sum(count(*)) over () from counted",
    "select count(*) from counted limit 0",
    "select (select count(*) from counted)",
]
COUNTED = [
    "select count(x) from counted",
    "select count(s) from counted",
    "select count(*), max(id) from counted",
    "select count(*) from counted where id > 5",
    "select count(*) filter (where x = 1) from counted",
    "select count(distinct s) from counted",
    "select count(*) from counted, (values (1), (2)) v",
    "select x, count(*) from counted group by x",
    "select count(*) from counted group by grouping sets ((), (x))",
    "select count(*) from (select from counted limit 5) c",
    "select count((select 1 where c.id > 5)) from counted c",
    "select (select count(c.id) from (values (1)) v) from counted c",
]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("sql", [*KNOWN, *COUNTED])
def test_counts_are_those_of_postgresql(oracle: Oracle, layout: str, sql: str) -> None:
    oracle.execute("select 1")
    oracle.parts = {oracle.relid("counted"): LAYOUTS[layout]}
    query = oracle.check(sql)
    reads = f"FROM {query.sources[0].view}" in query.sql if query.sources else False
    assert reads == (sql in COUNTED) or layout == "both"


def test_counts_beside_other_reads(oracle: Oracle) -> None:
    oracle.execute("select 1")
    oracle.parts = {oracle.relid("counted"): LAYOUTS["both"]}
    oracle.check("select id, (select count(*) from counted) from counted where id = 85")
    oracle.parts = {}
    oracle.execute("select 1")
    oracle.check("select id, (select count(*) from counted) from counted where id > 85")
    oracle.check("select 1 from counted where id = (select count(*) from counted)")
    oracle.check("select count(*) from counted union all select count(*) from uncounted")
