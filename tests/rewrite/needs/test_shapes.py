"""What the rule of thaw-and-run asks for, shape by shape."""

# ruff: noqa: E501 - a line for each shape

from collections.abc import Callable
from dataclasses import replace

import pytest

from rewrite.key_constants import is_readable
from rewrite.needs.definitions import Definitions, Relation, UniqueKey
from rewrite.needs.results import Fixed, Need, Needs, Refusal
from rewrite.needs.search import is_whole
from rewrite.needs.statement import needs
from rewrite.tree import Node
from tests.support.analyses import Analyses
from tests.support.expression_text import ExpressionText


class Catalog:
    """The tables, of which all but ``resident`` are tiered."""

    def __init__(self, analyses: Analyses, role: str = "") -> None:
        self.analyses = analyses
        self.role = role
        self.relids = {name: table.relid for name, table in analyses.tables.items()}
        self.names = {relid: name for name, relid in self.relids.items()}
        self.columns = {
            (table.relid, column.attnum): column.name
            for table in analyses.tables.values()
            for column in table.columns
        }
        self.definitions = analyses.definitions
        self._text = ExpressionText(analyses.name)

    def queries(self, sql: str) -> tuple[Node, ...]:
        return self.analyses.queries(sql, role=self.role)

    def needs(self, sql: str, known: Definitions | None = None) -> Needs:
        return needs(self.queries(sql), known or self.definitions)

    def asked(self, sql: str, known: Definitions | None = None) -> list[str]:
        """Return a line for each occurrence, and one for what is searched afterwards."""
        found = self.needs(sql, known)
        lines = [
            f"{self.names[one.relid]}: "
            + (" or ".join(self._need(one.relid, need) for need in one.needs) or "none")
            for one in found.occurrences
        ]
        for recorded in found.recorded:
            written = self._columns(recorded.written, recorded.columns)
            searched = self._columns(recorded.searched, recorded.keys)
            lines.append(f"{recorded.image.value} {written} in {searched}")
        return sorted(lines)

    def _columns(self, relid: int, attnums: tuple[int, ...]) -> str:
        return f"{self.names[relid]}({', '.join(self.columns[relid, n] for n in attnums)})"

    def _need(self, relid: int, need: Need) -> str:
        parts = [
            self._text.expression(condition, self._name(relid)) for condition in need.conditions
        ]
        parts += [self._fixed(relid, fixed) for fixed in need.fixed]
        few = [] if need.enough is None else [f"{self._text.expression(need.enough, str)} of"]
        if need.queue is not None:
            values = (
                self._text.expression(one["expr"], self._name(relid)) for one in need.queue.values
            )
            few = [f"the first by ({', '.join(values)}) of"]
        return " ".join([*few, *parts]) or "all"

    def _name(self, relid: int) -> Callable[[int], str]:
        return lambda attnum: self.columns[relid, attnum]

    def _fixed(self, relid: int, fixed: Fixed) -> str:
        names = ", ".join(self.columns[relid, attnum] for attnum in fixed.columns)
        rows = "; ".join(
            ", ".join(self._text.expression(value, str) for value in row) for row in fixed.rows
        )
        return f"[{names}: {'any of ' if fixed.arrays else ''}{rows}]"


@pytest.fixture(scope="module")
def catalog(analyses: Analyses) -> Catalog:
    return Catalog(analyses)


READS = [
    # Conditions of the query's own level that are about the table alone.
    ("select v from t where k = 5 for update", ["t: (k = 5) [k: 5]"]),
    ("select v from t where 5 = k", ["t: (5 = k) [k: 5]"]),
    ("select v from t where k = $1", ["t: (k = $1) [k: $1]"]),
    ("select v from t where k in (1, 2)", ["t: (k = ANY (ARRAY[1, 2])) [k: 1; 2]"]),
    ("select v from t where k = any ($1)", ["t: (k = ANY ($1)) [k: any of $1]"]),
    ("select v from t where k = 5 + 1", ["t: (k = (5 + 1)) [k: (5 + 1)]"]),
    ("select v from t where k = 5 or v = 3", ["t: ((k = 5) OR (v = 3))"]),
    # Alternatives tell of columns that all of them compare.
    ("select v from t where k = 5 or k = $1", ["t: ((k = 5) OR (k = $1)) [k: 5; $1]"]),
    (
        "select v from t where (k, v) in ((1, 2), (3, 4))",
        ["t: (((k = 1) AND (v = 2)) OR ((k = 3) AND (v = 4))) [k, v: 1, 2; 3, 4]"],
    ),
    (
        "select v from t where (k = 1 and v = 2) or (k = 3 and v > 4)",
        ["t: (((k = 1) AND (v = 2)) OR ((k = 3) AND (v > 4))) [k: 1; 3]"],
    ),
    (
        "select v from t where not (k = 1 or k = 2)",
        ["t: (NOT ((k = 1) OR (k = 2)))"],
    ),
    (
        "select v from t where k = 1 or (k = 2 and (v = 3 or v = 4))",
        ["t: ((k = 1) OR ((k = 2) AND ((v = 3) OR (v = 4)))) [k: 1; 2]"],
    ),
    (
        "select v from t where k = 1 or k = random()::int",
        ["t: all"],
    ),
    ("select v from t where k > 5 and v is null", ["t: (k > 5) (v IS NULL)"]),
    ("select v from t where k < 5 and t is not null", ["t: (k < 5)"]),
    ("select v from t where tableoid = 5", ["t: all"]),
    # Of arrays one element has to be equal, and has to be known.
    ("select v from t where k = all (array[1, 2])", ["t: (k = ALL (ARRAY[1, 2]))"]),
    ("select v from t where k <> any (array[1, 2])", ["t: (k <> ANY (ARRAY[1, 2]))"]),
    ("select v from t where k = any (array[1, v])", ["t: (k = ANY (ARRAY[1, v]))"]),
    ("select v from t where k = any (array[array[1, 2]])", ["t: (k = ANY (ARRAY[ARRAY[1, 2]])) [k: any of ARRAY[ARRAY[1, 2]]]"]),
    ("select v from t", ["t: all"]),
    ("select v from resident where k = 5", []),
    ("select t.v from t, s where t.k = s.k and t.v = 1 and s.v > 2", ["s: (v > 2)", "t: (v = 1) [v: 1]"]),
    # A resident table may change between the search and the statement.
    ("select t.v from t, resident r where t.k = r.k and r.v = 1", ["t: all"]),
    # A list of values does not.
    (
        "select t.v from t, (values (1, 2), (3, 4)) l (a, b) where t.k = l.a and t.v = l.b + 1",
        ["t: [k, v: 1, (2 + 1); 3, (4 + 1)] [k: 1; 3] [v: (2 + 1); (4 + 1)]"],
    ),
    (
        "with l (a) as (values (1), (3)) select t.v from t join l on k = a",
        ["t: [k: 1; 3]"],
    ),
    # Where it is joined with others, or asked from within, a column is one of its own list.
    ("select from t, s, (values (1, 2)) l (a, b) where t.k = l.a + s.k", ["s: all", "t: all"]),
    (
        "select from s, lateral (select from t, (values (1)) l (a) where t.k = l.a + s.k) q",
        ["s: all", "t: all"],
    ),
    ("select from t, (values (1)) l (a) where t.k = l.a + (random() * 3)::int", ["t: all"]),
    ("select from t, unnest(array[1, (random() * 3)::int]) l (a) where t.k = l.a", ["t: all"]),
    ("with l (a) as (update s set k = 7 where k = 1 returning v) select from t, l where t.k = l.a", ["s: (k = 1) [k: 1]", "s: [k: 7]", "t: all"]),
    ("with l (a) as (update t set v = t.k where k = 1 returning v) select from t, l where t.k = l.a", ["t: (k = 1) [k: 1]", "t: all"]),
    ("select from texts where w in (select 'a'::char(3) union all select 'b'::text)", ["texts: all"]),
    ("with l as (select 7 as a) select t.v from t join l on k = a", ["t: [k: 7]"]),
    ("select t.v from t, (select max(a) from (values (1), (2)) l (a)) m where k = max", ["t: all"]),
    ("select t.v from t, (values (1), (random()::int)) l (a) where t.k = l.a", ["t: all"]),
    # Joins: WHERE counts where nothing is filled up, ON for the sides it limits.
    ("select * from t left join s on t.k = s.k where t.v = 1", ["s: all", "t: (v = 1) [v: 1]"]),
    ("select * from t left join s on t.k = s.k and s.v = 1", ["s: (v = 1) [v: 1]", "t: all"]),
    ("select * from t left join s on t.k = s.k and t.v = 1", ["s: all", "t: all"]),
    ("select * from t left join s on t.k = s.k where s.v is null", ["s: all", "t: all"]),
    ("select * from t right join s on t.k = s.k and t.v < 1", ["s: all", "t: (v < 1)"]),
    ("select * from t full join s on t.k = s.k and t.v < 1 where t.k > 2", ["s: all", "t: all"]),
    ("select * from t join s on t.k = s.k and t.v < 1 and s.v > 2", ["s: (v > 2)", "t: (v < 1)"]),
    (
        "select * from resident r left join (t join s on t.k = s.k and t.v < 1) on r.k = t.k and s.v = 2",
        ["s: (v = 2) [v: 2]", "t: (v < 1)"],
    ),
    (
        "select * from (resident r left join t on r.k = t.k) join s on s.k = r.k and t.v is null and s.v < 1",
        ["s: (v < 1)", "t: all"],
    ),
    ("select * from t left join s using (k) where k = 5", ["s: all", "t: (k = 5) [k: 5]"]),
    (
        "select * from (values (1)) l (a) left join t on t.k = l.a",
        ["t: [k: 1]"],
    ),
    (
        "select * from s left join (values (1)) l (a) on s.v = l.a join t on t.k = coalesce(l.a, 7) where s.k = 1",
        ["s: (k = 1) [k: 1]", "t: all"],
    ),
    # Every query in the statement, each with its own conditions.
    (
        "select v from t where k = 1 and exists (select from s where s.k = t.v and s.v > 2)",
        ["s: (v > 2)", "t: (k = 1) [k: 1]"],
    ),
    (
        "select v from t where k = 1 and v not in (select v from t u where u.v < 3)",
        ["t: (k = 1) [k: 1]", "t: (v < 3)"],
    ),
    ("select (select max(v) from s where k = 2) from t where k = 1", ["s: (k = 2) [k: 2]", "t: (k = 1) [k: 1]"]),
    ("with w as (select * from t where k = 1) select * from w where v = 2", ["t: (k = 1) [k: 1]"]),
    # What is asked of a plain subquery is asked of the rows in it.
    ("select * from (select * from t) q where q.k = 1", ["t: (k = 1) [k: 1]"]),
    ("select * from (select k + 1 as n from t) q where n = 5", ["t: ((k + 1) = 5)"]),
    ("select * from (select random() as n from t) q where n = 5", ["t: all"]),
    ("select * from (select * from t limit 3) q where q.k = 1", ["t: int8(3) of"]),
    ("select * from (select * from t for update) q where q.k = 1", ["t: all"]),
    ("select * from (select * from (select * from t) p where v = 2) q where q.k = 1", ["t: (v = 2) (k = 1) [v: 2] [k: 1]"]),
    ("select * from resident r left join (select * from t where v = 2) q on q.k = 1", ["t: (v = 2) (k = 1) [v: 2] [k: 1]"]),
    ("select * from resident r left join (select * from t where v = 2) q on true where q.k = 1", ["t: (v = 2) [v: 2]"]),
    ("select * from (select t.k, s.v from t left join s on t.k = s.k) q where q.k = 1 and q.v is null", ["s: all", "t: (k = 1) [k: 1]"]),
    ("select k from t where k < 3 union select k from s where k > 9", ["s: (k > 9)", "t: (k < 3)"]),
    ("select v, count(*) from t where k < 9 group by v having v > 3", ["t: (k < 9)"]),
    # LIMIT tells how many rows are enough, where nothing else tells which.
    ("select from t where v > 3 limit $1", ["t: $1 of (v > 3)"]),
    ("select from t where 1 = 1 and v > 3 limit 2", ["t: int8(2) of (1 = 1) (v > 3)"]),
    ("select from t where v > 3 limit all", ["t: (v > 3)"]),
    # A query that locks rows in turn tells by that how far it has got.
    ("select from t where v > 3 limit 2 for share", ["t: the first by () of (v > 3)"]),
    ("select v from t where v > 3 order by d, k desc limit 2 for update skip locked", ["t: the first by (d, k) of (v > 3)"]),
    ("select v from t order by v + 1 limit $1 for update", ["t: the first by ((v + 1)) of"]),
    ("select v from t order by random() limit 1 for update", ["t: all"]),
    ("select v from t order by (select max(v) from s where k = 1) limit 1 for update", ["s: (k = 1) [k: 1]", "t: all"]),
    ("select v from t where v > 3 order by k limit 2 offset 1 for update", ["t: (v > 3)"]),
    ("select v from t where v > 3 order by k fetch first row with ties for update", ["t: (v > 3)"]),
    ("select v from t where v > 3 and random() < 1 order by k limit 2 for update", ["t: (v > 3)"]),
    ("select t.v from t, s where t.v > 3 and s.v > 3 order by t.k limit 2 for update of t", ["s: (v > 3)", "t: (v > 3)"]),
    ("select v from t order by t limit 1 for update", ["t: all"]),
    ("select v from t where v > 3 for update", ["t: (v > 3)"]),
    # Rows that a subquery has found are hot.
    ("select * from t join (select k from t where v = 3) q on t.k = q.k", ["t: (v = 3) [v: 3]", "t: [k: ]"]),
    ("with q as (select k from t order by v limit 1 for update) select from t, q where t.k = q.k", ["t: [k: ]", "t: the first by (v) of"]),
    ("select * from t join (select k from s where v = 3) q on t.k = q.k", ["s: (v = 3) [v: 3]", "t: all"]),
    ("select * from t join (select v from t where v = 3) q on t.k = q.v", ["t: (v = 3) [v: 3]", "t: all"]),
    ("select * from t join (select k from t where v = 3) q on t.v = q.k", ["t: (v = 3) [v: 3]", "t: all"]),
    ("select * from t right join (select k from t where v = 3) q on t.k = q.k", ["t: (v = 3) [v: 3]", "t: [k: ]"]),
    ("select * from t left join (select k from t where v = 3) q on t.k = q.k", ["t: (v = 3) [v: 3]", "t: all"]),
    # Not those that it compares otherwise, or shows of another query.
    ("select from two where a = (select a from two where v = 3 limit 1)", ["two: all", "two: int8(1) of (v = 3) [v: 3]"]),
    ("select from partial where v = (select v from partial where k = 1)", ["partial: (k = 1) [k: 1]", "partial: all"]),
    ("select from t where k = all (select k from t where v = 3)", ["t: (v = 3) [v: 3]", "t: all"]),
    ("select from t where k <> any (select k from t where v = 3)", ["t: (v = 3) [v: 3]", "t: all"]),
    ("select from t where k > (select k from t where v = 3)", ["t: (v = 3) [v: 3]", "t: all"]),
    ("select from flags where b = exists (select b from flags where v = 3)", ["flags: (v = 3) [v: 3]", "flags: all"]),
    ("select from t where k = (select t.k from t u where u.v = 3)", ["t: (v = 3) [v: 3]", "t: all"]),
    (
        "select from s where exists (select from (select k from t where v = 3) q, t where t.k = s.k)",
        ["s: all", "t: (v = 3) [v: 3]", "t: all"],
    ),
    ("select from t where v > 3 limit 2 offset 1", ["t: (v > 3)"]),
    ("select from t where v > 3 order by k limit 2", ["t: (v > 3)"]),
    ("select from t where v > 3 order by k fetch first row with ties", ["t: (v > 3)"]),
    ("select distinct v from t where v > 3 limit 2", ["t: (v > 3)"]),
    ("select count(*) from t where v > 3 limit 2", ["t: (v > 3)"]),
    ("select generate_series(1, v) from t where v > 3 limit 2", ["t: (v > 3)"]),
    ("select from t, generate_series(1, t.v) limit 2", ["t: all"]),
    ("select v from t where v > 3 group by v limit 2", ["t: (v > 3)"]),
    ("select from t where v > 3 group by () limit 1", ["t: (v > 3)"]),
    ("select from t where v > 3 having true limit 1", ["t: (v > 3)"]),
    ("select from t, s where t.v > 3 and s.v > 3 limit 2", ["s: (v > 3)", "t: (v > 3)"]),
    ("select from t where v > 3 and random() < 1 limit 2", ["t: (v > 3)"]),
    ("select (select v from s where s.v > 3 and s.k = t.v limit 1) from t where k = 5", ["s: (v > 3)", "t: (k = 5) [k: 5]"]),
    ("select v from t where v > 3 union all select v from s where v > 3 limit 2", ["s: (v > 3)", "t: (v > 3)"]),
    ("select row_number() over (order by v) from t where k < 9 order by v limit 2", ["t: (k < 9)"]),
    ("select k from positive where k = 4", ["t: (v > 0) (k = 4) [k: 4]"]),
    ("select n from totals where v = 4", ["t: (k < 100)"]),
    ("select * from t, lateral (select * from s where s.k = t.v and s.v > 1) q where t.k = 1", ["s: (v > 1)", "t: (k = 1) [k: 1]"]),
    # What is not the same when rows are searched and when the statement runs.
    ("select v from t where d < now() and k < 2", ["t: (d < now()) (k < 2)"]),
    ("select v from t where d < clock_timestamp() and k < 2", ["t: (k < 2)"]),
    ("select v from t where d < statement_timestamp()", ["t: all"]),
    ("select v from t where k = (random() * 3)::int", ["t: all"]),
    ("select v from t where d = current_date", ["t: (d = CURRENT_DATE) [d: CURRENT_DATE]"]),
    # Equal by another collation than the key's.
    ("select other from named where name = 'a'", ["named: (name = 'a') [name: 'a']"]),
    ('select other from named where name = \'a\' collate "C"', ["named: (name = 'a' COLLATE \"C\")"]),
]  # fmt: skip

WRITES = [
    ("update t set v = v + 1 where k = 5", ["t: (k = 5) [k: 5]"]),
    ("update t set v = 1 from s where s.k = t.k and s.v = 3 and t.v > 4", ["s: (v = 3) [v: 3]", "t: (v > 4)"]),
    ("update t set v = (select max(v) from s where k < 3) where k = 5", ["s: (k < 3)", "t: (k = 5) [k: 5]"]),
    ("update t set (v, w) = (select v, 'x' from s where k = 3) where k = 5", ["s: (k = 3) [k: 3]", "t: (k = 5) [k: 5]"]),
    ("update positive set v = 3 where k = 5", ["t: (k = 5) (v > 0) [k: 5]"]),
    ("delete from t where k = 5 returning (select max(v) from s where k < 3)", ["s: (k < 3)", "t: (k = 5) [k: 5]"]),
    ("delete from t using (values (1), (2)) l (a) where t.k = l.a", ["t: [k: 1; 2]"]),
    (
        "with gone as (delete from t where k = 1 returning v) insert into s select v, 0 from gone",
        ["new s(k) in s(k)", "s: none", "t: (k = 1) [k: 1]"],
    ),
    # Rows that a subquery over the same table has found are hot; what is not known of them is not taken for known.
    (
        "update t set v = 1 where k = (select k from t where v > 3 order by w limit 1 for update skip locked)",
        ["t: [k: ]", "t: the first by (w) of (v > 3)"],
    ),
    ("delete from t where k in (select u.k from t u where u.v = t.v and u.w = 'x')", ["t: (w = 'x') [w: 'x']", "t: [k: ]"]),
    ("delete from t where k in (select k from s where v > 3)", ["s: (v > 3)", "t: all"]),
    ("delete from t where k in (select v from t where v > 3)", ["t: (v > 3)", "t: all"]),
    ("delete from t where v in (select v from t where k > 3)", ["t: (k > 3)", "t: all"]),
    ("delete from t where k in (select k from t where v = 1 union select 7)", ["t: (v = 1) [v: 1]", "t: all"]),
    (
        "delete from parent where k = (select k from parent where v > 3 limit 1)",
        ["old child(k) in grandchild(c)", "old parent(k) in child(p)", "parent: [k: ]", "parent: int8(1) of (v > 3)"],
    ),
    (
        "delete from parent where k = 5 and k = (select k from parent where v > 3 limit 1)",
        ["child: [p: 5]", "old child(k) in grandchild(c)", "parent: (k = 5) [k: 5] [k: ]", "parent: int8(1) of (v > 3)"],
    ),
    # Unique keys: values known before are searched, others when they have been written.
    ("insert into t (k, v) values (1, 2)", ["t: [k: 1]", "t: none"]),
    ("insert into t (k) values (1), (2), ($1)", ["t: [k: 1; 2; $1]", "t: none"]),
    ("insert into two values (1, 2, 3), (4, 5, 6)", ["two: [a, b: 1, 2; 4, 5]", "two: none"]),
    ("insert into t select k + 1 from (values (1), (2)) l (k)", ["t: [k: (1 + 1); (2 + 1)]", "t: none"]),
    ("insert into t select k from s where k < 3", ["new t(k) in t(k)", "s: (k < 3)", "t: none"]),
    ("insert into t select generate_series(1, 3)", ["new t(k) in t(k)", "t: none"]),
    ("insert into t (v) values (3)", ["t: none"]),
    ("insert into numbered (v) values (3)", ["new numbered(k) in numbered(k)", "numbered: none"]),
    ("insert into random default values", ["new random(k) in random(k)", "random: [v: 3]", "random: none"]),
    ("insert into doubled values (1, 2)", ["doubled: [k: 1]", "doubled: none", "new doubled(g) in doubled(g)"]),
    ("update t set (k, v) = (select 7, 8) where k = 5", ["new t(k) in t(k)", "t: (k = 5) [k: 5]"]),
    ("update made set a = 7, v = 3 where g = 4", ["made: (g = 4) [g: 4]", "new made(a, g) in made(a, g)"]),
    (
        "insert into random (k, v) values (null, 1) on conflict (k) do update set v = random.v",
        ["new random(v) in random(v)", "random: [k: ]", "random: [v: 1]", "random: none"],
    ),
    ("update doubled set v = 4 where k = 1", ["doubled: (k = 1) [k: 1]", "new doubled(g) in doubled(g)"]),
    ("update t set k = 7 where k = 5", ["t: (k = 5) [k: 5]", "t: [k: 7]"]),
    ("update t set k = k + 1 where k = 5", ["new t(k) in t(k)", "t: (k = 5) [k: 5]"]),
    ("update two set a = 1 where b = 2", ["old two(a, b) in pair(a, b)", "two: (b = 2) [b: 2]", "two: [a: 1] [b: 2]"]),
    (
        "insert into t (k, v) values (1, 2), (3, 4) on conflict (k) do update set v = excluded.v where t.v < 5",
        ["t: [k: 1; 3]", "t: none"],
    ),
    (
        "insert into random (k, v) values (null, 1) on conflict (k) do update set v = excluded.v",
        ["random: [k: ]", "random: [v: 1]", "random: [v: 1]", "random: none"],
    ),
    (
        "insert into t (k) values (1) on conflict (k) do update set v = 1 where exists (select from s where s.k = 2)",
        ["s: (k = 2) [k: 2]", "t: [k: 1]", "t: none"],
    ),
    # MERGE
    (
        "merge into t using (values (1, 2), (3, 4)) l (a, b) on t.k = l.a and t.v > 0 when matched then update set v = l.b when not matched then insert (k, v) values (a, b)",
        ["t: (v > 0) [k: 1; 3]", "t: [k: 1; 3]"],
    ),
    (
        "merge into t using (values (1)) l (a) on t.k = l.a when matched then delete when not matched by source and t.v = 9 then delete",
        ["t: [k: 1] or (v = 9) [v: 9]"],
    ),
    (
        "merge into t using (values (1)) l (a) on t.k = l.a when not matched by source then delete",
        ["t: [k: 1] or all"],
    ),
    (
        "merge into t using s on t.k = s.k and t.v = 1 and s.v = 2 when matched then delete",
        ["s: all", "t: (v = 1) [v: 1]"],
    ),
    # Foreign keys
    ("insert into child values (1, 2, 3)", ["child: [k: 1]", "child: none", "parent: [k: 2]"]),
    ("insert into child (k) values (1)", ["child: [k: 1]", "child: none"]),
    ("insert into child select 1, v from s where k = 1", ["child: [k: 1]", "child: none", "parent: all", "s: (k = 1) [k: 1]"]),
    (
        "update covered set a = 2 where k = (select k from covered where a > 7 limit 1)",
        ["covered: [a: 2] [k: ]", "covered: [k: ]", "covered: int8(1) of (a > 7)"],
    ),
    ("update child set v = 3 where k = 1", ["child: (k = 1) [k: 1]"]),
    ("update child set p = 3 where k = 1", ["child: (k = 1) [k: 1]", "parent: [k: 3]"]),
    ("update child set p = p + 1 where k = 1", ["child: (k = 1) [k: 1]", "parent: all"]),
    ("insert into pair values (1, 2, 3)", ["pair: [k: 1]", "pair: none", "two: [a, b: 2, 3]"]),
    ("update pair set a = 2 where k = 1", ["pair: (k = 1) [k: 1]", "two: [a: 2]"]),
    (
        "delete from parent where k = 5",
        ["child: [p: 5]", "old child(k) in grandchild(c)", "parent: (k = 5) [k: 5]"],
    ),
    (
        "delete from parent where v = 5",
        ["old child(k) in grandchild(c)", "old parent(k) in child(p)", "parent: (v = 5) [v: 5]"],
    ),
    ("update parent set u = 1 where k = 5", ["parent: (k = 5) [k: 5]", "parent: [u: 1]"]),
    (
        "update child set k = 7 where k = 5",
        ["child: (k = 5) [k: 5]", "child: [k: 7]", "grandchild: [c: 5]"],
    ),
    # What becomes of the rows that reference others is looked at in its turn.
    (
        "update lead set k = 7 where k = 5",
        ["beyond: [k: 5]", "follow: [k: 5]", "lead: (k = 5) [k: 5]", "lead: [k: 7]", "lead: all", "moved: [k: 5]", "new follow(k) in follow(k)", "new moved(k) in moved(k)"],
    ),
    (
        "delete from lead where k = 5",
        ["beyond: [k: 5]", "follow: [k: 5]", "lead: (k = 5) [k: 5]", "lead: [k: ]", "moved: [k: 5]", "moved: [k: ]"],
    ),
    ("delete from tree where k = 1", ["old tree(k) in tree(up)", "tree: (k = 1) [k: 1]", "tree: [up: 1]"]),
    ("insert into resident values (1, 2)", []),
]  # fmt: skip

REFUSED = [
    # Functions of users that do something, in what tells rows apart.
    ("update t set v = 3 where k = 1 and done(v) = 3", "the volatile function done"),
    ("update t set v = 3 where k = 1 and v @@@ v = 3", "the volatile function done"),
    ("update t set v = s.v from s where t.k = s.k and done(s.v) = 3", "the volatile function done"),
    (
        "select * from t join s on t.k = done(s.k) where t.k = 1 for update of t",
        "the volatile function done",
    ),
    ("update t set v = (select done(v) from resident) where k = 1", "the volatile function done"),
    (
        "update t set v = o.v from (select done(v) as v, k from s) o where t.k = 1 and o.k = 1",
        "the volatile function done",
    ),
    (
        "with o as (select done(v) as v from s) insert into t select v from o on conflict do nothing",
        "the volatile function done",
    ),
    (
        "insert into t select 1 from s group by done(v) having done(max(k)) > 1",
        "the volatile function done",
    ),
    ("insert into t select k from s limit done(3)", "the volatile function done"),
    ("insert into t select o.k from s, done(s.v) o (k)", "the volatile function done"),
    (
        "insert into t select v from s where k = 1 union select done(v) from s",
        "the volatile function done",
    ),
    (
        "merge into t using s on t.k = done(s.v) when matched then delete",
        "the volatile function done",
    ),
    (
        "merge into t using (values (1)) l (a) on t.k = l.a when not matched by source and done(t.v) = 3 then delete",
        "the volatile function done",
    ),
    ("delete from t where k = 1 and v::doing > 3", "the volatile function done"),
    (
        "update t set v = l.a from (values (1, done(2))) l (k, a) where t.k = l.k",
        "the volatile function done",
    ),
    ("insert into t select k from s group by k order by min(v) using <#", "a user's own operator"),
    ("insert into partial values (1, 2)", "an index with a predicate"),
    ("insert into partial (k) values (1)", "an index with a predicate"),
    ("update partial set v = 3 where k = 1", "an index with a predicate"),
    ("insert into computed values (1, 2)", "an index with an expression"),
    ("update computed set v = 3 where k = 1", "an index with an expression"),
    ("insert into nothing values (1, 2)", "NULLs are equal"),
    ("update audited set v = 1 where k = 1", "the trigger audit"),
    ("select * from ranged where k = 1", "partitions"),
    ("select ctid from t where k = 1", "system columns"),
    ("select * from t tablesample system (10)", "TABLESAMPLE"),
    ("select * from ts_stat('select w::tsvector from t')", "reads tables"),
    ("delete from t where k = 1 and w::tsquery !@! 'select' is null", "reads tables"),
    ("update t set w = w::reading where k = 1", "reads tables"),
    ("delete from t where current of c", "CURRENT OF"),
    ("update joined set v = 1 where k = 1", "INSTEAD OF"),
    ("select query_to_xml('select * from t', true, true, '') from t where k = 1", "reads tables"),
]


FUNCTIONS_OF_USERS = [
    ("update t set v = mine(3) where k = 1", ["t: (k = 1) [k: 1]"]),
    ("update t set v = done(v) where k = 1 returning done(v), v @@@ v", ["t: (k = 1) [k: 1]"]),
    ("update t set v = v::own where k = 1", ["t: (k = 1) [k: 1]"]),
    ("update t set v = v::nested where k = 1 and v::made_of_own > 3", ["t: (k = 1) [k: 1]"]),
    ("update t set v = v::doing where k = 1", ["t: (k = 1) [k: 1]"]),
    ("update t set v = 3 where k = 1 and mine(v) = 3", ["t: (k = 1) [k: 1]"]),
    ("update t set v = 3 where v > 2 and seen(v) = 3", ["t: (v > 2)"]),
    ("update t set v = 3 where k = mine(3)", ["t: all"]),
    ("update t set v = 3 from mine(3) o where k = 1", ["t: (k = 1) [k: 1]"]),
    ("update t set v = (select all_of(v) from resident) where k = 1", ["t: (k = 1) [k: 1]"]),
    ("delete from t where k = 1 returning done(v)", ["t: (k = 1) [k: 1]"]),
    ("insert into t (k, v) values (1, done(2)), (3, done(4))", ["t: [k: 1; 3]", "t: none"]),
    ("insert into t (k) values (mine(1))", ["new t(k) in t(k)", "t: none"]),
    ("insert into t (k, v) select 1, done(k) from s where k = 1", ["s: (k = 1) [k: 1]", "t: [k: 1]", "t: none"]),
    ("insert into t (k, v) select 1, o from done(3) o", ["t: [k: 1]", "t: none"]),
    ("insert into t (k) values (1) on conflict (k) do update set v = done(t.v) where done(t.v) = 1", ["t: [k: 1]", "t: none"]),
    ("select done(v) from t where k = 1 for update", ["t: (k = 1) [k: 1]"]),
    ("with o as (update t set v = done(v) where k = 1 returning done(v)) select * from o", ["t: (k = 1) [k: 1]"]),
    ("merge into t using (values (1, 2)) l (a, b) on t.k = l.a when matched and done(l.b) = 1 then update set v = done(t.v) when not matched and done(l.b) = 1 then insert (k, v) values (a, done(b))", ["t: [k: 1]", "t: [k: 1]"]),
    ("merge into t using (values (1)) l (a) on t.k = l.a when not matched by source and t.v = 9 and seen(t.v) = 9 then delete", ["t: [k: 1] or (v = 9) [v: 9]"]),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "expected"), READS + WRITES + FUNCTIONS_OF_USERS)
def test_what_is_asked_for(catalog: Catalog, sql: str, expected: list[str]) -> None:
    assert catalog.asked(sql) == expected


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("update t set v = 1 where v > 3", True),
        ("update t set v = (select max(k) from resident) where v > 3 and w like 'a%'", True),
        ("delete from t where v > 3 or d is null", True),
        ("update t set v = 1 where v > 3 and random() < 0.5", False),
        (
            "update t set v = 1 where v > 3 and exists (select from resident r where r.k = t.v)",
            False,
        ),
        ("update t set v = 1 from resident r where t.v > 3", False),
        ("delete from t using resident r where t.v > 3 and r.k = 1", False),
        ("with x as (select 1) update t set v = 1 where v > 3", False),
    ],
)
def test_a_condition_tells_all_changed_rows_where_it_is_all_there_is(
    catalog: Catalog, sql: str, expected: bool
) -> None:
    (query,) = catalog.queries(sql)
    relid = catalog.relids["t"]
    (need,) = (
        need for one in catalog.needs(sql).occurrences if one.relid == relid for need in one.needs
    )
    assert need.conditions
    assert is_whole(query, need) is expected


@pytest.mark.parametrize("domain", ["small", "smaller"])
def test_what_a_domain_checks_is_looked_at(catalog: Catalog, domain: str) -> None:
    sql = f"update t set v = v::{domain} where k = 1"
    assert catalog.asked(sql) == ["t: (k = 1) [k: 1]"]
    with pytest.raises(Refusal, match="a cast to a domain"):
        catalog.needs(sql, replace(catalog.definitions, domain_checks=None))


@pytest.mark.parametrize(("sql", "reason"), REFUSED)
def test_what_is_refused(catalog: Catalog, sql: str, reason: str) -> None:
    with pytest.raises(Refusal, match=reason) as caught:
        catalog.needs(sql)
    assert caught.value.sqlstate == "0A000"


@pytest.mark.parametrize(
    "sql", ["delete from computed where k = 1", "update computed set w = 1 where k = 1"]
)
def test_an_index_is_kept_where_nothing_is_written_that_it_looks_at(
    catalog: Catalog, sql: str
) -> None:
    assert catalog.asked(sql) == ["computed: (k = 1) [k: 1]"]


@pytest.mark.parametrize(
    ("sql", "written", "arbitrates"),
    [
        # A row has a value also where it has none in the columns that it is computed from.
        ("insert into computed (w) values (1)", True, False),
        ("insert into computed (k, v) values (1, 2) on conflict do nothing", True, True),
        (
            "insert into computed values (1) on conflict (k) do update set v = 1",
            True,
            True,
        ),
        ("update computed set v = 1 where k = 1", True, False),
        ("update computed set w = 1 where k = 1", False, False),
        ("delete from computed where k = 1", False, False),
    ],
)
def test_computed_values_are_looked_for_when_they_have_been_written(
    catalog: Catalog, sql: str, written: bool, arbitrates: bool
) -> None:
    relid, known = catalog.relids["computed"], catalog.definitions
    keys = tuple(
        replace(key, irregular=None, computed=True, kept_afterwards=True) if key.irregular else key
        for key in known.relation(relid).unique
    )
    computed = next(key for key in keys if key.computed)
    relations = {**known.relations, relid: replace(known.relation(relid), unique=keys)}
    found = catalog.needs(sql, replace(known, relations=relations))
    assert ((relid, computed.columns) in found.written) is written
    assert found.arbitrates is arbitrates


FOUND_BY_ITSELF = "delete from partial where v = (select v from partial where k = 1)"


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (UniqueKey((2,)), "partial: [v: ]"),
        (UniqueKey((2,), irregular="an index with a predicate"), "partial: all"),
        (UniqueKey((2,), computed=True), "partial: all"),
    ],
)
def test_rows_with_values_of_hot_ones_are_hot_where_no_two_rows_have_the_same(
    catalog: Catalog, key: UniqueKey, expected: str
) -> None:
    relid, known = catalog.relids["partial"], catalog.definitions
    relations = {**known.relations, relid: replace(known.relation(relid), unique=(key,))}
    found = catalog.asked(FOUND_BY_ITSELF, replace(known, relations=relations))
    assert found == ["partial: (k = 1) [k: 1]", expected]


def test_values_that_are_kept_afterwards_are_looked_for_before_by_an_upsert_alone(
    catalog: Catalog,
) -> None:
    relid, known = catalog.relids["random"], catalog.definitions
    keys = tuple(replace(key, kept_afterwards=True) for key in known.relation(relid).unique)
    relations = {**known.relations, relid: replace(known.relation(relid), unique=keys)}
    later = replace(known, relations=relations)
    plain = catalog.needs("insert into random (k, v) values (null, 1)", later)
    upsert = catalog.needs(
        "insert into random (k, v) values (null, 1) on conflict do nothing", later
    )
    assert plain.written == upsert.written == {(relid, key.columns) for key in keys}
    assert [one.needs for one in plain.occurrences] == [()]
    assert len(upsert.occurrences) == 1 + len(keys)


def test_a_table_read_alone_runs_no_trigger(catalog: Catalog) -> None:
    assert catalog.asked("select * from audited where k = 1") == ["audited: (k = 1) [k: 1]"]


@pytest.mark.parametrize("field", ["code", "unfit"])
def test_what_is_refused_is_met_by_way_of_a_foreign_key(catalog: Catalog, field: str) -> None:
    child = catalog.relids["child"]
    known = catalog.definitions
    refused = replace(known.relation(child), **{field: "the trigger audit"})
    with pytest.raises(Refusal, match="the trigger audit"):
        catalog.needs(
            "delete from parent where k = 1",
            replace(known, relations={**known.relations, child: refused}),
        )


@pytest.fixture
def policed(analyses: Analyses) -> Catalog:
    """The tables, seen by a role that policies are for."""
    return Catalog(analyses, "somebody")


def test_policies_are_queries_like_others(policed: Catalog) -> None:
    found = policed.asked("update policed set v = 1 where k = 3")
    assert "s: (k < 5)" in found
    assert "policed: (k = 3) [k: 3]" in found


@pytest.mark.parametrize("lock", ["", " for update"])
def test_policies_leave_fewer_rows_than_a_limit_takes(policed: Catalog, lock: str) -> None:
    found = policed.asked(f"select from policed where k > 3 limit 2{lock}")
    assert "policed: (k > 3)" in found


def test_a_function_that_a_policy_calls_is_one_in_a_condition(policed: Catalog) -> None:
    with pytest.raises(Refusal, match="the volatile function done"):
        policed.needs("update watched set v = 1 where k = 3")


@pytest.mark.parametrize(
    "sql", ["delete from watched where k = 3", "select k from watched where k = 3 for update"]
)
def test_a_policy_is_a_condition_also_where_all_else_is_called_once_for_a_row(
    policed: Catalog, sql: str
) -> None:
    with pytest.raises(Refusal, match="the volatile function done"):
        policed.needs(sql)


def test_rows_that_are_locked_are_not_any_rows(catalog: Catalog) -> None:
    """Others may have locked those that are hot, and SKIP LOCKED goes on to the next."""
    found = catalog.needs("select from t where v > 3 limit 2 for update skip locked")
    (need,) = (need for one in found.occurrences for need in one.needs)
    assert need.enough is None
    assert need.queue is not None


def test_several_queries_are_refused(catalog: Catalog) -> None:
    queries = catalog.queries("delete from t where k = 1")
    with pytest.raises(Refusal, match="rules"):
        needs(queries * 2, catalog.definitions)


def test_whole_names_the_tables_of_which_all_rows_are_needed(catalog: Catalog) -> None:
    found = catalog.needs("update t set v = 1 from s where t.k = 1 and s.v = t.v")
    assert found.whole == {catalog.relids["s"]}


@pytest.mark.parametrize(
    ("statement", "is_late"),
    [
        ("insert into t (k) values (3) on conflict do nothing", False),
        ("insert into t (k) values ($1) on conflict do nothing", False),
        ("insert into t (k) values (3::int8::int4) on conflict do nothing", False),
        ("insert into t (k) values (length('abc')) on conflict do nothing", True),
        ("insert into t (k) values (3), (length('abc')) on conflict do nothing", True),
        ("insert into two values (3, abs(-3)) on conflict do nothing", True),
        ("insert into two (a) values (abs(-3)) on conflict do nothing", False),
        ("update t set k = 7 where k = 3", False),
        ("update t set k = length('abc') where k = 3", True),
        ("update t set v = length('abc') where k = 3", False),
    ],
)
def test_values_that_cannot_be_told_before_are_searched_afterwards(
    catalog: Catalog, statement: str, is_late: bool
) -> None:
    found = catalog.needs(statement, replace(catalog.definitions, is_known=is_readable))
    assert bool(found.recorded) == is_late
    assert not catalog.needs(statement).recorded


def test_a_table_nothing_is_known_of_has_no_constraints(catalog: Catalog) -> None:
    bare = Definitions(frozenset({catalog.relids["t"]}), lambda _: "i")
    found = catalog.needs("insert into t (k) values (1)", bare)
    assert [one.needs for one in found.occurrences] == [()]
    assert bare.relation(1) == Relation()
