"""What an UPDATE tells besides its rows: constraints, generated columns, changed keys."""

import pytest

from rewrite.context import CheckConstraint
from rewrite.errors import RewriteError, UnsupportedError
from tests.support.rewrite_oracle import Oracle

pytestmark = [pytest.mark.catalog, pytest.mark.spark]

TABLES = """
create table t (k int primary key, x int check (x < 100),
  total int generated always as (x * 2) stored, n numeric(6,2),
  constraint sane check (n > 0 or x is null));
insert into t (k, x, n) values (1, 10, 1.5), (2, 20, 2), (3, 30, null);
create view shown as select k, x from t where x < 100;
create view narrow as select k, x from t where x < 100 with check option;
create table owned (k int primary key);
"""


@pytest.fixture(scope="module", autouse=True)
def _tables(oracle: Oracle) -> None:
    oracle.execute(TABLES)


@pytest.fixture
def definitions(oracle: Oracle) -> dict[str, object]:
    relid = oracle.relid("t")
    checks = oracle.connection.execute(
        "select conname, conbin::text from pg_constraint where conrelid = %s and contype = 'c' "
        "order by conname",
        [relid],
    ).fetchall()
    generated = oracle.connection.execute(
        "select adnum, adbin::text from pg_attrdef where adrelid = %s", [relid]
    ).fetchall()
    return {
        "checks": {relid: tuple(CheckConstraint(*check) for check in checks)},
        "generated": {relid: dict(generated)},
    }


def test_generated_columns_follow_the_assigned_ones(
    oracle: Oracle, definitions: dict[str, object]
) -> None:
    change = oracle.check_change("update t set x = x + 1 returning *", **definitions)
    assert not change.changes_key
    oracle.check_change(
        "update t set x = null where k = 1 returning total, old.total", **definitions
    )


@pytest.mark.parametrize(
    ("sql", "replaced"),
    [
        ("update t set x = x + 1, k = k where k < 3", {1: "o1", 2: "o2", 3: "o3", 4: "n4"}),
        ("update t set n = 7 where k < 3", {1: "n1", 2: "n2", 3: "o3", 4: "o4"}),
        ("delete from t where k < 3", {1: "n1", 2: "n2", 3: "n3", 4: "n4"}),
    ],
)
def test_old_values_come_along_where_they_are_asked_for(
    oracle: Oracle, definitions: dict[str, object], sql: str, replaced: dict[int, str]
) -> None:
    change = oracle.compile_change(sql, with_old=True, **definitions)
    assert [column.column for column in change.old] == list(replaced.values())
    names = [column.column for column in change.query.columns]
    places = [names.index(column.column) for column in change.old]
    found = [tuple(row[place] for place in places) for row in oracle.run(change.query).rows]
    assert sorted(found) == oracle.expect("select * from t where k < 3 order by k").rows
    assert oracle.compile_change(sql, **definitions).old == ()


def test_checks_are_evaluated_on_the_new_row(
    oracle: Oracle, definitions: dict[str, object]
) -> None:
    change = oracle.check_change("update t set x = x + 1", **definitions)
    checks = [column for column in change.query.columns if column.column.startswith("check_")]
    assert [(column.name, column.type_oid) for column in checks] == [
        ("sane", 16),
        ("t_x_check", 16),
    ]
    rows = oracle.changed_rows("update t set x = x + 75, n = -1", **definitions)
    found = [tuple(row[name] for name in ("n1", "check_1", "check_2")) for row in rows]
    assert sorted(found) == [("1", "f", "t"), ("2", "f", "t"), ("3", "f", "f")]


def test_change_of_a_key_names_the_old_one(oracle: Oracle, definitions: dict[str, object]) -> None:
    change = oracle.check_change("update t set k = k + 10", **definitions)
    assert change.changes_key
    assert "k1" in [column.column for column in change.query.columns]


def test_view_is_updated_through_its_table(oracle: Oracle, definitions: dict[str, object]) -> None:
    oracle.check_change("update shown set x = x + 1 where k = 2 returning k, x", **definitions)
    oracle.check_change("delete from shown where x = 10", **definitions)


def test_check_option_is_refused(oracle: Oracle) -> None:
    with pytest.raises(UnsupportedError, match="check option"):
        oracle.check_change("update narrow set x = 1")


def test_row_security_is_refused(oracle: Oracle) -> None:
    oracle.execute("alter table owned enable row level security, force row level security")
    oracle.execute("create policy own on owned using (k > 0)")
    oracle.execute(
        "create role limited; grant select, update on owned to limited; set role limited"
    )
    try:
        with pytest.raises(UnsupportedError, match="row-level security"):
            oracle.check("select * from owned")
        with pytest.raises(UnsupportedError, match="row-level security"):
            oracle.check_change("update owned set k = 1")
    finally:
        oracle.execute("reset role; drop owned by limited; drop role limited")


def test_nesting_beyond_the_stack_is_an_error_of_postgresql(oracle: Oracle) -> None:
    with pytest.raises(RewriteError) as error:
        oracle.compile("select " + "-".join(["k"] * 900) + " from t")
    assert error.value.sqlstate == "54001"
