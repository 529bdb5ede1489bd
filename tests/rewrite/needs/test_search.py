"""What a condition is remembered by, and the query that finds its rows."""

import pytest

from rewrite.needs.results import Need
from rewrite.needs.search import condition, search
from rewrite.needs.statement import needs
from rewrite.tree import walk
from tests.support.analyses import Analyses


class Catalog:
    """Tables, all of them tiered."""

    def __init__(self, analyses: Analyses) -> None:
        self.definitions = analyses.definitions
        self.queries = analyses.queries

    def need(self, sql: str) -> Need:
        """Return the first need of a statement that conditions tell."""
        found = needs(self.queries(sql), self.definitions)
        return next(
            need for occurrence in found.occurrences for need in occurrence.needs if need.conditions
        )

    def digest(self, sql: str) -> bytes:
        return condition(self.need(sql), self.definitions.volatility).digest


@pytest.fixture(scope="module")
def catalog(analyses: Analyses) -> Catalog:
    return Catalog(analyses)


FIRST = "update t set v = 1 where v > 3"

SAME = [
    "delete from t where v > 3",
    "select from t x where x.v > 3 for update",
    "update t set v = 1 from (values (1)) l (a), t x where x.v > 3 and t.k = l.a",
]


@pytest.mark.parametrize("sql", SAME)
def test_a_condition_is_known_wherever_it_stands(catalog: Catalog, sql: str) -> None:
    assert catalog.digest(sql) == catalog.digest(FIRST)


OTHER = [
    "update t set v = 1 where v > 4",
    "update t set v = 1 where v >= 3",
    "update t set v = 1 where w > 3",
    "update t set v = 1 where v > 3 and w > 3",
    "update t set v = 1 where v > $1",
]


@pytest.mark.parametrize("sql", OTHER)
def test_another_condition_is_not_taken_for_it(catalog: Catalog, sql: str) -> None:
    assert catalog.digest(sql) != catalog.digest(FIRST)


@pytest.mark.parametrize(
    ("sql", "lasting", "parameters"),
    [
        ("delete from t where v > 3", True, ()),
        ("delete from t where v > $2 and w = $1 + $2", True, (1, 2)),
        ("delete from t where d < now()", False, ()),
        ("delete from t where d < current_timestamp", False, ()),
        ("delete from t where d < '2025-01-01'::date", False, ()),
    ],
)
def test_what_depends_on_more_than_the_row_does_not_last(
    catalog: Catalog, sql: str, lasting: bool, parameters: tuple[int, ...]
) -> None:
    found = condition(catalog.need(sql), catalog.definitions.volatility)
    assert (found.is_lasting, found.parameters) == (lasting, parameters)


QUEUE = "select k from t where v > 3 order by {} limit 2 for update"


@pytest.mark.parametrize("order", ["w", "v", "w desc", "w nulls first", "w, k", "w + 1"])
def test_a_queue_is_known_by_its_order(catalog: Catalog, order: str) -> None:
    def found(by: str) -> tuple[bytes, bytes]:
        told = condition(catalog.need(QUEUE.format(by)), catalog.definitions.volatility)
        return told.digest, told.order

    assert found(order)[0] == found("w")[0]
    assert (found(order) == found("w")) is (order == "w")


def test_an_order_that_depends_on_more_than_the_row_does_not_last(catalog: Catalog) -> None:
    need = catalog.need(QUEUE.format("d - now()"))
    assert not condition(need, catalog.definitions.volatility).is_lasting


def test_the_first_rows_of_a_queue_are_the_first_in_its_order(catalog: Catalog) -> None:
    need = catalog.need(QUEUE.format("w desc, v + 1"))
    (template,) = catalog.queries("select * from only t")
    first = condition(need, catalog.definitions.volatility).first(7).need
    query = search(template, first, few=True)
    assert query.nodes("sortClause") == list(first.queue.sort if first.queue else ())
    junk = [target for target in query.nodes("targetList") if target["resjunk"]]
    assert [target["ressortgroupref"] for target in junk] == [
        clause["tleSortGroupRef"] for clause in query.nodes("sortClause")
    ]
    assert query.node("limitCount")["constvalue"] == (7).to_bytes(8, "little")
    assert not search(template, first).nodes("sortClause")


def test_the_rows_of_a_condition_are_found_by_it_alone(catalog: Catalog) -> None:
    need = catalog.need("delete from t using s where s.k = t.k and t.v > 3 and t.w is null")
    (template,) = catalog.queries("select * from only t")
    quals = search(template, need).node("jointree").node("quals")
    assert len(quals.nodes("args")) == 2
    assert {node["varno"] for node, _ in walk(quals) if node.tag == "VAR"} == {1}
    assert search(template, need).nodes("rtable") == template.nodes("rtable")
