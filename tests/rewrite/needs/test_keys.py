"""Which keys statements name by constants, and when they do not."""

# ruff: noqa: E501 - a line for each statement

from dataclasses import dataclass, replace
from decimal import Decimal

import pytest

from rewrite.context import ParameterValue
from rewrite.needs.keys import Contents, keys, named, types_of
from rewrite.needs.results import Refusal
from rewrite.needs.sources import Source, sources
from rewrite.needs.statement import needs
from rewrite.tree import Node
from tests.support.analyses import Analyses

PARAMETERS = (
    ParameterValue(20, 7),
    ParameterValue(25, "k7"),
    ParameterValue(1016, [1, None, 2]),
    ParameterValue(20, None),
)
TYPES = (20, 25, 1016, 20)


@dataclass
class Catalog:
    """The tables, of which all but ``resident`` are tiered."""

    analyses: Analyses

    def __post_init__(self) -> None:
        self.definitions = self.analyses.definitions
        self.tables = self.analyses.tables

    def queries(self, sql: str) -> tuple[Node, ...]:
        return self.analyses.queries(sql, TYPES)

    def keys(self, sql: str, table: str, most: int = 4) -> set[tuple[object, ...]]:
        found = needs(self.queries(sql), self.definitions)
        return set(keys(found, self.tables[table], PARAMETERS, most=most))


@pytest.fixture(scope="module")
def catalog(analyses: Analyses) -> Catalog:
    return Catalog(analyses)


SOURCES = [
    ("update t set v = s.v from resident s where t.k = s.k", "t", {(1,), (2,)}),
    ("update t set v = s.v from resident s where t.k = s.v", "t", {(10,), (20,)}),
    ("delete from t where k in (select k from resident where v > 5)", "t", {(1,), (2,)}),
    ("delete from t where exists (select from resident s where s.k = t.k)", "t", {(1,), (2,)}),
    (
        "merge into t using (select max(v) as v, k from resident group by k) s on t.k = s.k when matched then delete",
        "t",
        {(1,), (2,)},
    ),
    (
        "merge into t using (select k, row_number() over (partition by v) as n from resident) s on t.k = s.k when not matched then insert values (s.k)",
        "t",
        {(1,), (2,)},
    ),
    (
        "with s as (select k from resident union all select 7) delete from t using s where t.k = s.k",
        "t",
        {(1,), (2,), (7,)},
    ),
    (
        "with s as (delete from resident returning k) insert into t select k from s on conflict do nothing",
        "t",
        {(1,), (2,)},
    ),
    (
        "insert into t select r.k, v from resident r left join (values (1)) x (a) on a = k on conflict (k) do update set v = 1",
        "t",
        {(1,), (2,)},
    ),
    (
        "insert into t select v from resident union select k from resident on conflict do nothing",
        "t",
        {(1,), (2,), (10,), (20,)},
    ),
    ("delete from two using resident r where a = 'x' and b = r.k", "two", {("x", 1), ("x", 2)}),
    (
        "delete from two using resident r join resident q using (k) where a = 'x' and b = k",
        "two",
        {("x", 1), ("x", 2)},
    ),
    ("delete from two using resident r where a = r.w and b = r.k", "two", {("x", 1), ("y", 2)}),
    # What stands in a subquery is another row than the one beside it.
    (
        "delete from pair using resident r, (select q.v from (values (1)) o (n), resident q) s where pair.k = r.k and pair.v = s.v",
        "pair",
        {(1, 10), (1, 20), (2, 10), (2, 20)},
    ),
    (
        "insert into pair select r.k, s.v from resident r, (select v from resident) s on conflict do nothing",
        "pair",
        {(1, 10), (1, 20), (2, 10), (2, 20)},
    ),
]
"""With two rows in ``resident``: (1, 10, x) and (2, 20, y)."""

HELD = {1: (1, 2), 2: (10, 20), 3: ("x", "y")}


@pytest.mark.parametrize(("sql", "table", "expected"), SOURCES)
def test_keys_come_from_tables_that_are_looked_at(
    catalog: Catalog, sql: str, table: str, expected: set[tuple[object, ...]]
) -> None:
    resident = catalog.tables["resident"].relid
    known = replace(catalog.definitions, readable=frozenset({resident}))
    target = catalog.tables[table]
    found = needs(catalog.queries(sql), known)
    asked = sources((need for one in found.occurrences for need in one.needs), (target.key,))
    assert {source.relid for source in asked} == {resident}
    contents = {
        source: list(zip(*(HELD[column] for column in source.columns), strict=True))
        for source in asked
    }
    assert keys(found, target, PARAMETERS, most=9, contents=contents) == expected
    with pytest.raises(Refusal):
        catalog.keys(sql, table, most=9)


@pytest.mark.parametrize(
    "sql",
    [
        "update t set v = s.v from resident s where t.k = s.k + 1",
        "delete from t where k = (select max(k) from resident)",
        "delete from t where exists (select count(*) from resident s where s.k = t.k)",
        "delete from t where exists (select from resident s where s.k = t.k group by rollup (v))",
        "delete from t using resident s where t.k = s.k or s.v = 1",
        "delete from t using (select k from resident tablesample system (50)) s where t.k = s.k",
        "with recursive s as (select k from resident union all select k + 1 from s where k < 9) delete from t using s where t.k = s.k",
        "with s as (update resident set k = k + 1 returning k) delete from t using s where t.k = s.k",
    ],
)
def test_keys_that_are_computed_are_not_known(catalog: Catalog, sql: str) -> None:
    known = replace(catalog.definitions, readable=frozenset({catalog.tables["resident"].relid}))
    found = needs(catalog.queries(sql), known)
    with pytest.raises(Refusal, match="not named by constants"):
        keys(found, catalog.tables["t"], PARAMETERS, most=9)


@pytest.mark.parametrize(
    "sql",
    [
        "delete from two using resident s where a::bpchar = s.w::bpchar and b = 1",
        "delete from two where a::bpchar in (select w::bpchar from resident) and b = 1",
    ],
)
def test_keys_that_are_equal_as_padded_ones_are_not_known(catalog: Catalog, sql: str) -> None:
    known = replace(catalog.definitions, readable=frozenset({catalog.tables["resident"].relid}))
    found = needs(catalog.queries(sql), known)
    with pytest.raises(Refusal, match="not named by constants"):
        keys(found, catalog.tables["two"], PARAMETERS, most=9)


def test_values_that_a_column_would_cut_are_not_known(catalog: Catalog) -> None:
    resident = catalog.tables["resident"].relid
    known = replace(catalog.definitions, readable=frozenset({resident}))
    sql = "insert into two select w, k from resident on conflict do nothing"
    found = needs(catalog.queries(sql), known)
    fits: Contents = {Source(resident, (1, 3)): [(1, "four")]}
    is_cut: Contents = {Source(resident, (1, 3)): [(1, "longer")]}
    assert keys(found, catalog.tables["two"], (), most=9, contents=fits) == {("four", 1)}
    with pytest.raises(Refusal, match="not plain constants"):
        keys(found, catalog.tables["two"], (), most=9, contents=is_cut)


def test_values_that_are_rounded_once_are_known(catalog: Catalog) -> None:
    exact = catalog.tables["exact"].relid
    known = replace(catalog.definitions, readable=frozenset({exact}))
    contents: Contents = {Source(exact, (1,)): [("0.0049",), ("0.0051",)]}
    sql = "insert into amounts select n from exact on conflict do nothing"
    found = needs(catalog.queries(sql), known).of(catalog.tables["amounts"].relid)
    assert keys(found, catalog.tables["amounts"], (), most=9, contents=contents) == {
        (Decimal("0.00"),),
        (Decimal("0.01"),),
    }


@pytest.mark.parametrize(
    "sql",
    [
        "insert into amounts select n::numeric(6, 3)::numeric(6, 2) from exact on conflict do nothing",
        "insert into amounts select n from (select n::numeric(6, 3) from exact) s on conflict do nothing",
    ],
)
def test_values_that_are_rounded_twice_are_not_known(catalog: Catalog, sql: str) -> None:
    """0.0049 becomes 0.005, and that 0.01."""
    exact = catalog.tables["exact"].relid
    known = replace(catalog.definitions, readable=frozenset({exact}))
    contents: Contents = {Source(exact, (1,)): [("0.0049",)]}
    found = needs(catalog.queries(sql), known).of(catalog.tables["amounts"].relid)
    with pytest.raises(Refusal, match="known only when the statement runs"):
        keys(found, catalog.tables["amounts"], (), most=9, contents=contents)


def test_what_is_looked_at_tells_the_values_of_each_key(catalog: Catalog) -> None:
    resident = catalog.tables["resident"].relid
    known = replace(catalog.definitions, readable=frozenset({resident}))
    sql = "delete from t where exists (select from resident s where s.k = t.k and s.v = t.v)"
    (occurrence,) = needs(catalog.queries(sql), known).occurrences
    named_by = ((1,), (2,), (1, 2))
    contents = {
        source: list(zip(*(HELD[column] for column in source.columns), strict=True))
        for source in sources(occurrence.needs, named_by)
    }
    (need,) = occurrence.needs
    types = types_of(catalog.tables["t"])
    found = [named(need, key, types, (), most=9, contents=contents) for key in named_by]
    assert found == [{(1,), (2,)}, {(10,), (20,)}, {(1, 10), (2, 20)}]


NAMED = [
    ("update t set v = 1 where k = 5", "t", {(5,)}),
    ("update t set v = 1 where k = 1 or k = 2", "t", {(1,), (2,)}),
    ("update t set v = 1 where (v, k) in ((1, 2), (3, 4)) and v > 0", "t", {(2,), (4,)}),
    ("delete from t where 5::smallint = k", "t", {(5,)}),
    ("update t set v = 1 where k = (select 1)", "t", {(1,)}),
    ("delete from t where k in (select distinct x from unnest($3) x)", "t", {(1,), (2,)}),
    (
        "delete from t using (select k from (values (1), (2), (2)) x (k) group by k order by k limit 1) s where t.k = s.k",
        "t",
        {(1,), (2,)},
    ),
    (
        "delete from t where k in (values (1), (2)) and exists (select from (values (2), (3)) s (a) where s.a = t.k)",
        "t",
        {(2,)},
    ),
    ("delete from two where (a, b) in (values ('a', 1), ('b', 2))", "two", {("a", 1), ("b", 2)}),
    (
        "delete from two using (values ('a', 1), ('b', 2)) s (x, y) where a = x and b = y",
        "two",
        {("a", 1), ("b", 2)},
    ),
    (
        "delete from two using unnest(array['a', 'b'], array[1, 2]) s (x, y) where a = x and b = y",
        "two",
        {("a", 1), ("b", 2)},
    ),
    (
        "insert into two (a, b) select x, y from unnest(array['a', 'b'], array[1, 2]) s (x, y) on conflict do nothing",
        "two",
        {("a", 1), ("b", 2)},
    ),
    ("update t set v = 1 where k = $1", "t", {(7,)}),
    ("update t set v = 1 where k = $4", "t", set()),
    ("update t set v = 1 where k = null", "t", set()),
    ("update t set v = 1 where k in (1, 2, 2, $1)", "t", {(1,), (2,), (7,)}),
    ("update t set v = 1 where k = any ($3)", "t", {(1,), (2,)}),
    ("update t set v = 1 where k = any ('{3,null}')", "t", {(3,)}),
    ("update t set v = 1 where k = 1 and k in (1, 2)", "t", {(1,)}),
    ("update t set v = 1 where k = 1 and k = 2", "t", set()),
    ("update t set v = 1 where k = 1 and v > 3", "t", {(1,)}),
    ("update t set v = s.b from (values (1, 2), (3, 4)) s (a, b) where k = s.a", "t", {(1,), (3,)}),
    ("update t set k = 2 where k = 1", "t", {(1,), (2,)}),
    (
        "update t set v = 1 where k = 1 and exists (select from t x where x.k = 9)",
        "t",
        {(1,), (9,)},
    ),
    ("update t set v = r.v from resident r where t.k = 1 and r.k = t.v", "t", {(1,)}),
    ("insert into t values (1), (2) on conflict do nothing", "t", {(1,), (2,)}),
    ("insert into t select 1 from resident on conflict do nothing", "t", {(1,)}),
    (
        "merge into t using (values (1), (2)) s (a) on k = a when matched then delete when not matched then insert values (a)",
        "t",
        {(1,), (2,)},
    ),
    ("update two set v = 1 where a = 'x' and b = 1", "two", {("x", 1)}),
    ("update two set v = 1 where (a, b) = ($2, 1)", "two", {("k7", 1)}),
    (
        "update two set v = 1 where a in ('x', 'y') and b in (1, 2)",
        "two",
        {("x", 1), ("x", 2), ("y", 1), ("y", 2)},
    ),
    ("insert into two values ('four', 1) on conflict do nothing", "two", {("four", 1)}),
    ("insert into two values ($2, $1) on conflict do nothing", "two", {("k7", 7)}),
    ("update two set b = 2 where a = 'x' and b = 1", "two", {("x", 1), ("x", 2)}),
    ("update two set b = 2 where (a, b) = ('x', 1)", "two", {("x", 1), ("x", 2)}),
    ("update dated set v = 1 where k = 1 and at = '1970-01-02'", "dated", {(1, 1)}),
    ("update dated set v = 1 where k = 1 and at = '0001-12-31 BC'", "dated", {(1, -719163)}),
    (
        "delete from dated where k = 1 and at = any ('{1970-01-01,1970-01-03,null}')",
        "dated",
        {(1, 0), (1, 2)},
    ),
    (
        "delete from timed where at = '1970-01-01 00:00:01.5+00' and is_on = true",
        "timed",
        {(1_500_000, True)},
    ),
    ("update padded set v = 1 where c = 'x'", "padded", {("x  ",)}),
    ("update padded set v = 1 where c = 'x      '", "padded", {("x  ",)}),
    ("update padded set v = 1 where c = 'x '::varchar", "padded", {("x  ",)}),
    ("update padded set v = 1 where c = 'xyza'::char(2)", "padded", {("xy ",)}),
    ("update padded set v = 1 where c = $2::char(1)", "padded", {("k  ",)}),
    (
        "update padded set v = 1 where c in ('x', e'\t', '')",
        "padded",
        {("x  ",), ("\t  ",), ("   ",)},
    ),
    (
        "update padded set v = 1 where c = any ('{x,y  }'::varchar[])",
        "padded",
        {("x  ",), ("y  ",)},
    ),
    ("insert into padded values ('x    ') on conflict do nothing", "padded", {("x  ",)}),
    ("update amounts set v = 1 where n = 1", "amounts", {(Decimal("1.00"),)}),
    ("update amounts set v = 1 where n = 1.5000", "amounts", {(Decimal("1.50"),)}),
    ("update amounts set v = 1 where n = $1", "amounts", {(Decimal("7.00"),)}),
    (
        "update amounts set v = 1 where n in (-0.0, 2::smallint, 3e1)",
        "amounts",
        {(Decimal(0),), (Decimal(2),), (Decimal(30),)},
    ),
    ("update amounts set v = 1 where n = any ($3)", "amounts", {(Decimal(1),), (Decimal(2),)}),
    ("update amounts set v = 1 where n = any ('{1.1,NaN,null}')", "amounts", {(Decimal("1.1"),)}),
    (
        "update amounts set n = 2.345 where n = 2.34::numeric(4, 1)",
        "amounts",
        {(Decimal("2.3"),), (Decimal("2.35"),)},
    ),
    (
        "insert into amounts values (-1.005) on conflict do nothing",
        "amounts",
        {(Decimal("-1.01"),)},
    ),
    (
        "delete from amounts using (values (1), (2)) x (k) where n = k",
        "amounts",
        {(Decimal(1),), (Decimal(2),)},
    ),
    (
        "delete from kinds where b = '\\x00ff' and o = 4294967295 and at = '24:00'",
        "kinds",
        {(b"\0\xff", 2**32 - 1, 86_400_000_000)},
    ),
    ("delete from kinds where b = '' and o = -1 and at = '00:00'", "kinds", {(b"", 2**32 - 1, 0)}),
    # No column holds these.
    ("update padded set v = 1 where c = 'wxyz'", "padded", set()),
    ("update amounts set v = 1 where n = 1.505", "amounts", set()),
    ("update amounts set v = 1 where n in (10000, 'NaN', 'Infinity', 1e30)", "amounts", set()),
    ("update two set v = 1 where a = 'x' and b = 70000", "two", set()),
    ("update dated set v = 1 where k = 1 and at = 'infinity'", "dated", set()),
    ("delete from timed where at in ('-infinity', 'infinity') and is_on = true", "timed", set()),
]


@pytest.mark.parametrize(("sql", "table", "expected"), NAMED)
def test_rows_are_named(
    catalog: Catalog, sql: str, table: str, expected: set[tuple[object, ...]]
) -> None:
    assert catalog.keys(sql, table) == expected


NOT_NAMED = [
    (
        "update dated set v = 1 where k = 1 and at = timestamp '1970-01-02'",
        "dated",
        "not named by constants",
    ),
    (
        "delete from timed where at = date '1970-01-02' and is_on = true",
        "timed",
        "not named by constants",
    ),
    ("delete from timed where at = '1970-01-02' and is_on", "timed", "not named by constants"),
    ("update t set v = 1", "t", "not named by constants"),
    ("update t set v = 1 where k > 5", "t", "not named by constants"),
    ("update t set v = 1 where k = 1 or v = 2", "t", "not named by constants"),
    ("update t set v = 1 where k = 1 + 1", "t", "not plain constants"),
    ("update t set v = 1 where w::bpchar = 'a'::bpchar", "t", "not named by constants"),
    ("update t set v = 1 from resident r where t.k = r.k", "t", "not named by constants"),
    ("update t set v = 1 where k in (1, 2, 3, 4, 5)", "t", "more than 4"),
    ("update t set k = k + 1 where k = 1", "t", "known only when the statement runs"),
    (
        "update t set v = 1 where k = 1 and exists (select from other o where o.k = 1)",
        "t",
        "other tiered tables",
    ),
    ("update two set v = 1 where a = 'x'", "two", "not named by constants"),
    (
        "update two set v = 1 where a::bpchar = 'x'::bpchar and b = 1",
        "two",
        "not named by constants",
    ),
    ("update two set v = 1 where a in ('1', '2', '3') and b in (1, 2, 3)", "two", "more than 4"),
    ("insert into two values ('x', 70000) on conflict do nothing", "two", "not plain constants"),
    ("insert into two values ('longer', 1) on conflict do nothing", "two", "not plain constants"),
    ("update padded set v = 1 where c = any ('{x}'::text[])", "padded", "not named by constants"),
    ("update padded set v = 1 where c = 'x'::text", "padded", "not named by constants"),
    ("update amounts set v = 1 where n = 1::float8", "amounts", "not named by constants"),
    ("update amounts set v = 1 where n = 1 + 1.5", "amounts", "not plain constants"),
    ("insert into amounts values (10000) on conflict do nothing", "amounts", "not plain constants"),
    ("insert into padded values ('wxyz') on conflict do nothing", "padded", "not plain constants"),
    (
        "update kinds set v = 1 where b = '' and o::int = -1 and at = '00:00'",
        "kinds",
        "not named by constants",
    ),
    ("update blank set v = 1 where c = 'x'", "blank", "a key of such a type"),
    ("update exact set v = 1 where n = 1", "exact", "a key of such a type"),
]


@pytest.mark.parametrize(("sql", "table", "reason"), NOT_NAMED)
def test_rows_are_not_named(catalog: Catalog, sql: str, table: str, reason: str) -> None:
    with pytest.raises(Refusal, match=reason):
        catalog.keys(sql, table)
