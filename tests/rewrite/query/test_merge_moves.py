"""MERGE that gives rows other keys, compiled: such a row is one that goes and one that comes."""

import pytest

from rewrite.context import CheckConstraint
from tests.support.rewrite_oracle import Oracle

pytestmark = [pytest.mark.catalog, pytest.mark.spark]

TABLES = """
create table moving (a int, b text, c int check (c < 100), d int generated always as (c * 2) stored,
  n numeric(6,2) not null default 0, primary key (a, b));
insert into moving values (1, 'x', 10), (1, 'y', 20), (2, 'x', 30), (3, 'z', null);
create table given (a int, b text, c int);
insert into given values (1, 'x', 5), (2, 'x', 6), (7, 'q', 7);
create table computed (a int, g int generated always as (a / 2) stored primary key);
insert into computed values (2), (4), (6);
create table decimals (k numeric(6,2) primary key, v int);
insert into decimals values (1.50, 1), (2, 2);
"""

JOIN = "using given s on t.a = s.a and t.b = s.b"
RETURNED = "returning merge_action(), t.*, old.a, old.b, old.d, new.a, new.d, s.*"
INSERTED = "when not matched then insert (a, b, c) values (s.a, s.b, s.c)"


@pytest.fixture(scope="module", autouse=True)
def _tables(oracle: Oracle) -> None:
    oracle.execute(TABLES)


@pytest.fixture
def rules(oracle: Oracle) -> dict[str, object]:
    generated = {}
    for table in ("moving", "computed"):
        relid = oracle.relid(table)
        generated[relid] = dict(
            oracle.connection.execute(
                "select d.adnum, d.adbin::text from pg_attrdef d join pg_attribute a"
                " on a.attrelid = d.adrelid and a.attnum = d.adnum"
                " where d.adrelid = %s and a.attgenerated = 's'",
                [relid],
            ).fetchall()
        )
    checks = oracle.connection.execute(
        "select conname, conbin::text from pg_constraint where conrelid = %s and contype = 'c'",
        [oracle.relid("moving")],
    ).fetchall()
    told = {oracle.relid("moving"): tuple(CheckConstraint(*check) for check in checks)}
    return {"checks": told, "generated": generated, "moves": True}


@pytest.mark.parametrize(
    "sql",
    [
        f"merge into moving t {JOIN} when matched then update set a = t.a + 10 {RETURNED}",
        (
            f"merge into moving t {JOIN} when matched and s.c = 5 then update set b = 'w', c = s.c"
            f" when matched then update set c = s.c {INSERTED} {RETURNED}"
        ),
        (
            f"merge into moving t {JOIN} when matched then delete {INSERTED}"
            f" when not matched by source then update set a = t.a + 50, n = 1.5 {RETURNED}"
        ),
        # What is assigned is what was there.
        (
            f"merge into moving t {JOIN} when matched then"
            f" update set a = s.a, b = s.b, c = 1 {RETURNED}"
        ),
        (
            "merge into decimals t using (values (1.5, 9)) s (k, v) on t.k = s.k"
            " when matched then update set k = s.k, v = s.v returning t.*"
        ),
        (
            "merge into decimals t using (values (1.5, 9)) s (k, v) on t.k = s.k"
            " when matched then update set k = s.k + 1 returning old.k, new.k"
        ),
        (
            "merge into computed t using (values (4)) s (a) on t.a = s.a"
            " when matched then update set a = 5 returning t.*"
        ),
        (
            "merge into computed t using (values (4)) s (a) on t.a = s.a"
            " when matched then update set a = 9 returning old.g, new.g"
        ),
        (
            f"merge into moving t {JOIN} when matched then"
            " update set a = t.a + 100 + (select count(*) from given), b = 'far' returning t.a"
        ),
    ],
)
def test_what_is_written_is_what_postgresql_writes(
    oracle: Oracle, rules: dict[str, object], sql: str
) -> None:
    oracle.check_merge(sql, **rules)


@pytest.mark.parametrize(
    ("sql", "conflicts"),
    [
        # To a key that is given up, by each other or by one that is deleted.
        ("using (values (1), (2)) s (i) on a = i when matched then update set a = 3 - a", "000055"),
        (
            (
                "using (values ('x', 1), ('y', 1)) s (b, a) on t.a = s.a and t.b = s.b"
                " when matched and t.b = 'y' then delete when matched then update set b = 'y'"
            ),
            "005",
        ),
        # Two to one key; the rows that go are none of it.
        ("using (values (1)) s (i) on a = i when matched then update set b = 'n'", "0022"),
        # To a key that stays.
        (
            (
                "using given s on t.a = s.a and t.b = s.b when matched and s.c = 5 then"
                " update set a = 2 when matched then update set c = 3"
            ),
            "002",
        ),
        # Inserted with a key that is given up, or that another one gets.
        (
            (
                "using (values (1, 'x', 9), (8, 'x', 9)) s (a, b, c) on t.a = s.a and t.b = s.b"
                " when matched then update set a = 5 when not matched then insert values (1, 'x')"
            ),
            "005",
        ),
        (
            (
                "using (values (1, 'x', 9), (8, 'x', 9)) s (a, b, c) on t.a = s.a and t.b = s.b"
                " when matched then update set a = 5 when not matched then insert values (5, 'x')"
            ),
            "022",
        ),
        # Twice, to different keys.
        (
            (
                "using (values (1, 5), (1, 6)) s (a, c) on t.a = s.a and t.b = 'x'"
                " when matched then update set a = s.c"
            ),
            "0011",
        ),
        (
            (
                "using (values (1, 5), (1, 6)) s (a, c) on t.a = s.a and t.b = 'x'"
                " when matched and s.c = 5 then update set a = s.c when matched then delete"
            ),
            "011",
        ),
        # NULL is no key: whoever writes it is told.
        ("using given s on t.a = s.a and t.b = s.b when matched then update set a = null", "0000"),
    ],
)
def test_conflicts(oracle: Oracle, rules: dict[str, object], sql: str, conflicts: str) -> None:
    assert "".join(oracle.conflicts(f"merge into moving t {sql}", **rules)) == conflicts


def test_a_key_that_is_generated_changes_with_what_it_is_generated_from(
    oracle: Oracle, rules: dict[str, object]
) -> None:
    sql = "using (values (4, 5), (6, 9)) s (a, b) on t.a = s.a when matched then update set a = s.b"
    alone = {**rules, "moves": False}
    assert "".join(oracle.conflicts(f"merge into computed t {sql}", **alone)) == "04"


def test_rows_are_two_only_where_a_key_is_assigned(
    oracle: Oracle, rules: dict[str, object]
) -> None:
    for clause, is_two in (("c = 1", False), ("b = 'n'", True), ("a = 1, c = 2", True)):
        sql = f"merge into moving t {JOIN} when matched then update set {clause}"
        names = [one.column for one in oracle.compile_merge(sql, **rules).query.columns]
        assert ("moved" in names) is is_two
        alone = oracle.compile_merge(sql, **{**rules, "moves": False}).query
        assert "moved" not in [one.column for one in alone.columns]
