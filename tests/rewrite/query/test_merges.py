"""MERGE, compiled: what it writes, what it returns, and which conflicts it finds."""

import pytest

from catalog.model import TableSnapshot
from rewrite.context import CheckConstraint, GivenSource
from rewrite.errors import UnsupportedError
from rewrite.results import Drawn, DrawnColumn
from tests.support.rewrite_oracle import Oracle, assert_rows

pytestmark = [pytest.mark.catalog, pytest.mark.spark]

TABLES = """
create table t (k int primary key, v int default 7 check (v < 1000), w text default 'new',
  total int generated always as (v * 2) stored, n numeric(6,2), d date default '2024-02-01');
insert into t (k, v, w, n) select g, g * 10, 'w' || g, g / 4.0 from generate_series(1, 8) g;
insert into t (k, v, w, n, d) values (9, null, null, null, null);
create table s (id int, x int, y text, m numeric);
insert into s values (1, 0, 'one', 1), (2, -5, 'two', 2.50), (3, 5, null, null),
  (20, 1, 'twenty', 7), (21, null, 'none', 0.125), (null, 3, 'null', 3);
create table keyless (a int, b text);
insert into keyless values (1, 'x'), (1, 'x'), (2, 'y'), (null, 'z');
create table pairs (a int, b text, c int, primary key (a, b));
insert into pairs values (1, 'a', 1), (1, 'b', 2), (2, 'a', 3);
create view shown as select k, v from t where v < 50;
create table serials (id serial primary key, v int);
"""


@pytest.fixture(scope="module", autouse=True)
def _tables(oracle: Oracle) -> None:
    oracle.execute(TABLES)


@pytest.fixture
def rules(oracle: Oracle) -> dict[str, object]:
    relid = oracle.relid("t")
    checks = oracle.connection.execute(
        "select conname, conbin::text from pg_constraint where conrelid = %s and contype = 'c'",
        [relid],
    ).fetchall()
    generated = oracle.connection.execute(
        "select d.adnum, d.adbin::text from pg_attrdef d join pg_attribute a on a.attrelid ="
        " d.adrelid and a.attnum = d.adnum where d.adrelid = %s and a.attgenerated = 's'",
        [relid],
    ).fetchall()
    return {
        "checks": {relid: tuple(CheckConstraint(*check) for check in checks)},
        "generated": {relid: dict(generated)},
    }


UPDATED = "when matched then update set v = s.x"
INSERTED = "when not matched then insert (k, v) values (s.id, s.x)"
BY_SOURCE = "when not matched by source then"
RETURNED = "returning merge_action(), t.*, old.k, old.v, new.v, new.total, s.*"
GIVEN = "when not matched and s.id is not null then insert (k, v) values (s.id, s.x)"

MERGES = {
    "update": f"merge into t using s on t.k = s.id {UPDATED} {RETURNED}",
    "insert": f"merge into t using s on t.k = s.id {GIVEN} {RETURNED}",
    "update and insert": f"merge into t using s on t.k = s.id {UPDATED} {GIVEN} {RETURNED}",
    "delete": f"merge into t using s on t.k = s.id when matched then delete {RETURNED}",
    "delete what the source has not": f"""merge into t using s on t.k = s.id
        {BY_SOURCE} delete {RETURNED}""",
    "all three": f"""merge into t using s on t.k = s.id {UPDATED} {GIVEN}
        {BY_SOURCE} update set w = 'gone', v = t.v + 1 {RETURNED}""",
    "conditions in order": f"""merge into t using s on t.k = s.id
        when matched and s.x < 0 then delete
        when matched and s.x = 0 then do nothing
        when matched and s.x < 10 then update set v = t.v + s.x, w = s.y
        when matched then update set v = -1
        when not matched and s.id = 20 then insert values (s.id, s.x, s.y, default, s.m)
        when not matched and s.x is null then insert (k, w) values (s.id, default)
        {BY_SOURCE.replace("then", "and t.k = 4 then")} do nothing
        {BY_SOURCE.replace("then", "and t.v > 60 then")} delete
        {BY_SOURCE.replace("then", "and t.v is null then")} update set v = default, d = default
        {RETURNED}""",
    "a condition that is NULL": f"""merge into t using s on t.k = s.id
        when matched and s.y > 'a' then update set w = s.y
        when matched then update set w = 'y is null' {RETURNED}""",
    "nothing": "merge into t using s on t.k = s.id when matched then do nothing",
    "nothing that matches": f"merge into t using s on t.k = s.id + 100 {UPDATED} returning t.*",
    "NULL in ON": f"""merge into t using s on t.v = s.x {BY_SOURCE} update set w = 'unmatched'
        when not matched and s.id > 3 then insert (k, n) values (s.id, s.m) {RETURNED}""",
    "ON without the key": f"""merge into t using s on t.v = s.x * 10
        when matched then update set w = s.y, n = s.m + t.n {RETURNED}""",
    "ON that is an inequality": f"""merge into t using s on s.id = 21 and t.k > 6
        when matched then update set w = s.y {RETURNED}""",
    "ON that is false": f"""merge into t using s on false {UPDATED}
        when not matched and s.id > 10 then insert (k) values (s.id) {RETURNED}""",
    "ON with more than the key": f"""merge into t using s on t.k = s.id and t.v > 10
        {UPDATED} when not matched and s.id > 10 then insert (k, v) values (s.id, 0)
        {BY_SOURCE} update set v = 0 {RETURNED}""",
    "values": """merge into t using (values (1, 'a'), (30, 'b')) q (id, z) on t.k = q.id
        when matched then update set w = z when not matched then insert (k, w) values (id, z)
        returning merge_action(), t.*, q.*""",
    "a subquery": """merge into t using (select id % 2 as i, count(*) as c from s
        where id is not null group by 1) q on t.k = q.i
        when matched then update set v = c
        when not matched then insert (k, v) values (q.i, q.c) returning merge_action(), t.k, q.*""",
    "a join": """merge into t using (s join pairs p on p.a = s.id and p.b = 'a') on t.k = s.id
        when matched then update set v = p.c returning t.k, s.y, p.c""",
    "with": """with q as (select id, max(x) as x from s where id is not null group by id)
        merge into t using q on t.k = q.id
        when matched and x >= (select min(x) from q where x >= 0) then update set v = q.x
        when not matched then insert (k, v) values (q.id, (select count(*) from q))
        returning t.*""",
    "a function": """merge into t using generate_series(7, 10) g on t.k = g
        when matched then update set v = g when not matched then insert (k) values (g)
        returning merge_action(), t.*, g""",
    "the target as source": f"""merge into t using (select k + 5 as id, v as x from t) s
        on t.k = s.id {UPDATED} {INSERTED} {BY_SOURCE} delete
        returning merge_action(), t.*, s.*""",
    "subqueries": f"""merge into t using s
        on t.k = s.id and exists (select from pairs where a = s.id)
        when matched and s.id in (select a from pairs) then
        update set v = (select sum(c) from pairs where a = t.k), w = (select max(y) from s)
        {RETURNED}""",
    "a key that is assigned": f"""merge into t using s on t.k = s.id
        when matched then update set k = s.id, v = s.x {RETURNED}""",
    "two columns are the key": """merge into pairs
        using (values (1, 'a', 10), (2, 'b', 20)) s (a, b, c)
        on pairs.a = s.a and pairs.b = s.b when matched then update set c = s.c
        when not matched then insert values (s.a, s.b, s.c)
        when not matched by source then delete returning merge_action(), pairs.*, s.*""",
    "other keys": f"""merge into t using s on t.k = s.id
        when matched and s.x = 0 then update set k = t.k + 100, v = 5
        when matched and s.x < 0 then delete when matched then update set k = -s.id
        when not matched and s.id > 20 then insert (k) values (s.id)
        {BY_SOURCE.replace("then", "and t.k > 6 then")} update set k = t.k + 200 {RETURNED}""",
    "new rows without key": """merge into keyless
        using (values (1, 'u'), (7, 'n'), (7, 'n')) s (a, b) on keyless.a = s.a
        when matched then update set b = s.b when not matched then insert values (s.a, s.b)
        when not matched by source then delete returning merge_action(), keyless.*, s.b""",
    "without key": """merge into keyless using (values (1, 'u'), (null, 'n')) s (a, b)
        on keyless.a = s.a when matched then update set b = s.b
        when not matched by source then delete returning merge_action(), keyless.*, s.b""",
    "a view": """merge into shown using s on shown.k = s.id when matched then update set v = s.x
        when not matched and s.id > 10 then insert (k, v) values (s.id, s.x)
        returning merge_action(), shown.*""",
    "a view and what the source has not": """merge into shown using s on shown.k = s.id
        when matched then update set v = s.x when not matched by source then delete
        returning merge_action(), shown.*, s.id""",
    "row of values": """merge into t using s on t.k = s.id
        when matched then update set (v, w) = (s.x, s.y), n = s.m""",
    "an expression that only chosen rows can compute": """merge into t using s on t.k = s.id
        when matched and s.x <> 0 then update set v = 100 / s.x
        when matched then update set v = 0 returning t.*""",
}


@pytest.mark.parametrize("sql", MERGES.values(), ids=MERGES)
def test_what_is_written_is_what_postgresql_writes(
    oracle: Oracle, rules: dict[str, object], sql: str
) -> None:
    oracle.check_merge(sql, **rules)


@pytest.mark.parametrize(
    ("sql", "conflicts"),
    [
        ("using (values (1), (1), (2)) s (i) on t.k = s.i when matched then delete", "011"),
        (
            (
                "using (values (1, 0), (1, 1)) s (i, x) on t.k = s.i when matched and x = 0 then"
                " do nothing when matched then update set v = x"
            ),
            "0",
        ),
        (
            "using (values (30), (30)) s (i) on k = i when not matched then insert values (i)",
            "22",
        ),
        ("using (values (3), (30)) s (i) on false when not matched then insert values (i)", "02"),
        (
            (
                "using (values (30), (31)) s (i) on t.k = s.i"
                " when not matched then insert values (i - 30 + 9)"
            ),
            "02",
        ),
        (
            (
                "using (values (1)) s (i) on t.v = s.i when not matched then insert values (i)"
                " when not matched by source and k = 1 then delete"
            ),
            "03",
        ),
        (
            (
                "using (values (1)) s (i) on t.v = s.i when not matched then insert values (i)"
                " when not matched by source and k = 1 then update set v = 2"
            ),
            "02",
        ),
        (
            "using (values (1), (2)) s (i) on k = i when matched then update set k = i * 2 - 1",
            "002",
        ),
        (
            "using (values (1), (2)) s (i) on k = i when matched then update set k = 3 - i",
            "0055",
        ),
        ("using (values (1), (2)) s (i) on k = i when matched then update set k = 70", "0022"),
        (
            (
                "using (values (1, 0), (2, 70)) s (i, x) on k = i when matched and x = 0 then"
                " delete when matched then update set k = 1"
            ),
            "005",
        ),
        (
            (
                "using (values (1), (70)) s (i) on k = i when matched then update set k = 71"
                " when not matched then insert values (71)"
            ),
            "022",
        ),
        ("using (values (1), (1)) s (i) on k = i when matched then update set k = 70", "1122"),
        (
            "using (values (1), (2)) s (i) on k = null when not matched then insert (v) values (1)",
            "00",
        ),
    ],
)
def test_conflicts(oracle: Oracle, sql: str, conflicts: str) -> None:
    assert "".join(oracle.conflicts(f"merge into t {sql}")) == conflicts


def test_joins_are_no_wider_than_the_clauses_ask_for(oracle: Oracle) -> None:
    def joins(name: str) -> list[str]:
        text = oracle.compile_merge(MERGES[name]).query.sql
        return [kind for kind in ("LEFT JOIN", "RIGHT JOIN", "FULL JOIN") if kind in text]

    assert joins("update") == joins("delete") == joins("nothing") == []
    assert joins("insert") == joins("update and insert") == ["LEFT JOIN"]
    assert joins("delete what the source has not") == ["LEFT JOIN"]
    assert joins("all three") == ["FULL JOIN"]


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        (
            (
                "into t using s on k = id when matched and k > 1 then update set (v, w) ="
                " (select 1, 'a') when matched then update set (v, w) = (select 2, 'b')"
            ),
            "more than one clause",
        ),
        (
            (
                "into serials r using s on r.id = s.id when not matched then insert (v) values (x)"
                " returning r.id + 1"
            ),
            "computed from a value that",
        ),
        (
            (
                "into serials r using s on r.id = s.id when not matched then insert (id, v)"
                " values (s.id, nextval('serials_id_seq') + 1)"
            ),
            "nextval",
        ),
        (
            (
                "into serials r using s on r.id = s.id when matched then"
                " update set id = nextval('serials_id_seq')"
            ),
            "keys that a large MERGE draws in UPDATE",
        ),
        (
            (
                "into shown using s on k = id when not matched then insert values (id, x)"
                " when not matched by source then delete"
            ),
            "view with a condition",
        ),
        ("into t using s on k = id when matched then update set w = pg_sleep(1)::text", "pg_sleep"),
        ("into t using s on k = id when matched then delete returning t", "whole-row"),
    ],
)
def test_refused(oracle: Oracle, sql: str, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        oracle.compile_merge(f"merge {sql}")


def test_a_source_that_is_given(oracle: Oracle) -> None:
    insert = "when not matched then insert (k, v) values (s.id, s.x)"
    sql = f"merge into t using s on t.k = s.id {UPDATED} {insert} returning s.y"
    source = oracle.compile_merge_source(sql)
    assert source is not None
    assert [source.columns, sorted(source.ranged)] == [((2, 1), (2, 2), (2, 3)), [0]]
    assert_rows(oracle.run(source.query).rows, oracle.expect("select id, x, y from s").rows)
    snapshot = TableSnapshot(source.table, "given", 0, (), 6)
    given = GivenSource(snapshot, source.columns, {0: ((1, 3), (20, 21))})
    text = oracle.compile_merge(sql, given=given).query.sql
    assert text.count("recent_0_") == 2
    assert "LEFT SEMI JOIN" in text
    assert "(t1.c1 >= 1 AND t1.c1 <= 3) OR (t1.c1 >= 20 AND t1.c1 <= 21)" in text


def test_a_source_is_read_alone(oracle: Oracle) -> None:
    source = oracle.compile_merge_source(f"merge into t using s on t.k = s.id {UPDATED}")
    assert source is not None
    assert [one.relid for one in source.query.sources] == [oracle.relid("s")]
    assert source.query.input_rows == 6


@pytest.mark.parametrize(
    ("using", "is_scan"),
    [
        ("s", True),
        ("(select id, y, x from s) s", False),
        ("(select id, x, y from s where x > 0) s", False),
        ("(select id, x + 1 as x, y from s) s", False),
        ("(values (1, 2, '3')) s (id, x, y)", False),
    ],
)
def test_a_table_is_a_source_that_needs_no_spark(oracle: Oracle, using: str, is_scan: bool) -> None:
    sql = f"merge into t using {using} on t.k = s.id {UPDATED} returning s.y"
    source = oracle.compile_merge_source(sql)
    assert source is not None
    assert (source.query.scan is not None) is is_scan


def test_columns_of_a_source_keep_their_types(oracle: Oracle) -> None:
    clause = "when matched then update set v = s.v, n = s.n, w = s.w, d = s.d"
    source = oracle.compile_merge_source(f"merge into t using t s on t.k = s.k {clause}")
    assert source is not None
    t = oracle.snapshot(oracle.relid("t")).table
    wanted = [(t.column(attno).type_oid, t.column(attno).typmod) for _, attno in source.columns]
    assert [(one.type_oid, one.typmod) for one in source.table.columns] == wanted
    assert source.query.scan is not None


def _given(oracle: Oracle, sql: str, *, distinct: bool = True, is_little: bool = True) -> str:
    """Return what a MERGE is compiled to whose source is known."""
    source = oracle.compile_merge_source(sql)
    assert source is not None
    place = source.columns.index((2, 1))
    snapshot = TableSnapshot(source.table, "given", 0, (), 6)
    given = GivenSource(
        snapshot, source.columns, {}, frozenset({place} if distinct else ()), is_little
    )
    return oracle.compile_merge(sql, given=given).query.sql


PLAIN_INSERT = "when not matched then insert (k, v) values (s.id, s.x)"
OTHER_INSERT = "when not matched then insert (k, v) values (s.id + 1, s.x)"
DELETED = "when matched then delete"


@pytest.mark.parametrize(
    ("clauses", "counted"),
    [
        (f"on t.k = s.id {UPDATED} {PLAIN_INSERT}", 0),
        (f"on t.k = s.id {DELETED} {PLAIN_INSERT}", 0),
        (f"on t.k = s.id and t.v > 0 {UPDATED}", 0),
        (f"on t.k = s.id and t.v > 0 {UPDATED} {PLAIN_INSERT}", 2),
        (f"on t.k = s.id {UPDATED} {OTHER_INSERT}", 2),
        (f"on t.k = s.id and t.k = s.x {UPDATED} {PLAIN_INSERT}", 2),
        (f"on t.k = s.x and t.k = s.id {UPDATED} {PLAIN_INSERT}", 2),
        (f"on t.k = s.id and t.k = 5 {UPDATED} {PLAIN_INSERT}", 2),
        (f"on t.v = s.id {UPDATED}", 1),
        (f"on t.k = s.x {UPDATED}", 1),
    ],
)
def test_rows_are_counted_where_one_may_be_hit_twice(
    oracle: Oracle, clauses: str, counted: int
) -> None:
    sql = f"merge into t using s on {clauses.removeprefix('on ')} returning s.id"
    assert _given(oracle, sql).count("COUNT_IF") == counted
    assert "COUNT_IF" in _given(oracle, sql, distinct=False)


def test_several_columns_of_a_key_are_not_told_by_one_that_has_no_value_twice(
    oracle: Oracle,
) -> None:
    sql = "merge into pairs using s on a = s.id and b = s.y when matched then update set c = s.x"
    assert "COUNT_IF" in _given(oracle, sql)


@pytest.mark.parametrize(
    ("clauses", "is_broadcast"),
    [
        (f"on t.k = s.id {UPDATED} {PLAIN_INSERT}", True),
        (f"on t.k = s.id and t.v > 0 {UPDATED} {PLAIN_INSERT}", True),
        (f"on t.v = s.id {UPDATED} {PLAIN_INSERT}", False),
        (f"on t.k = s.id {UPDATED}", False),
    ],
)
def test_rows_that_match_are_broadcast_where_they_are_no_more_than_those_of_the_source(
    oracle: Oracle, clauses: str, is_broadcast: bool
) -> None:
    sql = f"merge into t using s {clauses} returning s.id"
    assert ("BROADCAST" in _given(oracle, sql)) is is_broadcast
    assert "BROADCAST" not in _given(oracle, sql, is_little=False)


@pytest.mark.parametrize(
    "clauses",
    [
        f"on t.k = s.id {BY_SOURCE} delete",
        f"on t.k > s.id {UPDATED}",
        f"on s.id = 1 {UPDATED}",
    ],
)
def test_a_source_that_tells_nothing_of_the_target_is_read_with_it(
    oracle: Oracle, clauses: str
) -> None:
    assert oracle.compile_merge_source(f"merge into t using s {clauses}") is None


def test_what_new_rows_draw_is_left_to_postgresql(oracle: Oracle) -> None:
    change = oracle.compile_merge(
        "merge into serials r using s on r.id = s.id when matched then delete"
        " when not matched then insert (v) values (x) returning r.v, r.id, old.id, s.x"
    )
    sequence = oracle.relid("serials_id_seq")
    assert change.drawn == (DrawnColumn(1, 2, Drawn("nextval", sequence), ("r2",)),)
    rows = oracle.run(change.query).rows
    place = [column.column for column in change.query.columns]
    told = {(row[place.index("n1")], row[place.index("place")]) for row in rows}
    assert told == {(None, "2")}


def test_so_is_what_an_update_draws(oracle: Oracle) -> None:
    change = oracle.compile_merge(
        "merge into serials r using s on r.id = s.id when matched and x < 0 then delete"
        " when matched then update set v = nextval('serials_id_seq') returning r.v, old.v"
    )
    sequence = oracle.relid("serials_id_seq")
    assert change.drawn == (DrawnColumn(2, 2, Drawn("nextval", sequence), ("r1",)),)


def test_what_is_drawn_for_a_row_that_moves_is_not_returned(oracle: Oracle) -> None:
    sql = (
        "merge into serials r using s on r.id = s.id when matched then"
        " update set id = r.id + 100, v = nextval('serials_id_seq')"
    )
    assert oracle.compile_merge(sql).drawn
    with pytest.raises(UnsupportedError, match="that it gives another key"):
        oracle.compile_merge(f"{sql} returning r.v")
