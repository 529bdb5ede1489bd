"""The proof of the rule: random statements do on the rows it asks for what they do on all rows.

Controls leave one line of the rule out, and show that the comparison finds what is wrong then.
"""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

import pytest

from rewrite.command import Command, command
from rewrite.dialect.oids import FIRST_USER_OID
from rewrite.needs import (
    levels,
    limits,
    places,
    reads,
    search,
    statement,
    users_functions,
    writes,
)
from rewrite.needs.definitions import Definitions
from rewrite.needs.levels import Level
from rewrite.needs.results import Fixed, Image, Need, Needs, Occurrence
from rewrite.query.predicates import conjuncts
from rewrite.query.range_table import GROUP
from rewrite.tree import Item, Node, transform, walk
from tests.support.campaigns import campaign
from tests.support.left_out import CONTROL_STATEMENTS, Patch, changed, found_after
from tests.support.outcomes import Comparison, Verdict
from tests.support.random_forms import Form
from tests.support.thawing import Thawing

pytestmark = pytest.mark.catalog

logger = logging.getLogger(__name__)


def described(found: Comparison) -> str:
    return f"{found.sql}\nexpected {found.expected}\nfound    {found.found}"


@pytest.mark.parametrize(
    "number",
    [500, pytest.param(20_000, marks=[pytest.mark.exhaustive, pytest.mark.timeout(1800)])],
)
def test_statements_do_on_hot_rows_what_they_do_on_all(thawing: Thawing, number: int) -> None:
    verdicts: Counter[Verdict] = Counter()
    told = 0
    reasons: Counter[str] = Counter()
    for sql in campaign(thawing, number):
        found = thawing.check(sql)
        assert found.verdict is not Verdict.MISMATCH, described(found)
        verdicts[found.verdict] += 1
        told += found.told and found.verdict is Verdict.SAME
        reasons[f"{found.verdict.name}: {found.reason}"] += bool(found.reason)
    counted = {verdict.name: n for verdict, n in verdicts.items()}
    logger.info("%s %s, told by sources: %s", counted, dict(+reasons), told)
    assert sum(verdicts.values()) == number
    assert thawing.reused > number / 100
    assert told > (number - verdicts[Verdict.REFUSED]) * 0.15
    # Statements that need all rows, or fail before it is known what they need, prove little.
    assert verdicts[Verdict.SAME] > number / 2
    assert verdicts[Verdict.AMBIGUOUS] < number / 50
    assert verdicts[Verdict.REFUSED] < number / 50


def test_statements_do_so_on_keys_of_numeric(thawing: Thawing) -> None:
    """Constants are integers, and columns of the source ``e``; what is assigned is rounded."""
    verdicts: Counter[Verdict] = Counter()
    for sql in campaign(thawing, 300, number_type="numeric(5, 0)"):
        if "recursive" in sql:  # both sides would have to be of one type
            continue
        found = thawing.check(sql)
        assert found.verdict is not Verdict.MISMATCH, described(found)
        verdicts[found.verdict] += 1
    assert verdicts[Verdict.SAME] > 150
    assert verdicts[Verdict.REFUSED] < 6


# -- controls --------------------------------------------------------------------------------------


def _without(tag: str) -> Patch:
    """Do not look for queries below a kind of node."""

    def nested(query: Node) -> Iterator[Node]:
        pending: list[Item] = list(query.fields.values())
        while pending:
            item = pending.pop()
            if isinstance(item, list):
                pending.extend(item)
            elif isinstance(item, Node) and item.tag == "QUERY":
                yield item
            elif isinstance(item, Node) and item.tag != tag:
                pending.extend(item.fields.values())

    return lambda patch: patch.setattr(levels, "_nested", nested)


def _without_field(name: str) -> Patch:
    """Do not look for queries in a field of a query."""
    original = levels._nested

    def nested(query: Node) -> Iterator[Node]:
        return original(query.replace(**{name: None}))

    return lambda patch: patch.setattr(levels, "_nested", nested)


def _joins(filled: dict[int, tuple[str, ...]], limited: dict[int, tuple[str, ...]]) -> Patch:
    def change(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(places, "FILLED", places.FILLED | filled)
        patch.setattr(places, "LIMITED", places.LIMITED | limited)

    return change


def _having_counts(patch: pytest.MonkeyPatch) -> None:
    original = places.places

    def with_having(query: Node) -> places.Places:
        entries = query.nodes("rtable")

        def grouped(node: Node, depth: int) -> Item | None:
            if node.tag == "VAR" and node["varlevelsup"] == depth == 0:
                entry = entries[node.integer("varno") - 1]
                if entry["rtekind"] == GROUP:
                    return entry.items("groupexprs")[node.integer("varattno") - 1]
            return None

        having = transform(query.get("havingQual"), grouped)
        aggregated = [
            c for c in conjuncts(having) if not any(n.tag == "AGGREF" for n, _ in walk(c))
        ]
        bare = [_unaggregated(c) for c in conjuncts(having) if c not in aggregated]
        return original(query).limited(aggregated + bare)

    patch.setattr(reads, "places", with_having)


def _unaggregated(condition: Node) -> Node:
    """Return a condition on an aggregate as one on what is aggregated."""

    def argument(node: Node, depth: int) -> Item | None:
        del depth
        if node.tag == "AGGREF" and node.nodes("args"):
            return node.nodes("args")[0].node("expr")
        return None

    changed = transform(condition, argument)
    assert isinstance(changed, Node)
    return changed


def _volatile_counts(patch: pytest.MonkeyPatch) -> None:
    def steady(node: Node, _: object) -> bool:
        parts = [part for part, _ in walk(node)]
        own = any(part.integer("funcid") >= FIRST_USER_OID for part in parts if part.get("funcid"))
        return not own and all(part.tag != "SUBLINK" for part in parts)

    patch.setattr(reads, "is_steady", steady)


def _users_functions_count(patch: pytest.MonkeyPatch) -> None:
    """Take a function of a user for one that always says the same."""
    original = reads.is_steady

    def argument(node: Node, _: int) -> Item | None:
        is_users = node.tag == "FUNCEXPR" and node.integer("funcid") >= FIRST_USER_OID
        return node.nodes("args")[0] if is_users else None

    def steady(node: Node, volatility: Callable[[int], str]) -> bool:
        changed = transform(node, argument)
        return isinstance(changed, Node) and original(changed, volatility)

    patch.setattr(reads, "is_steady", steady)


def _outer_columns_count(patch: pytest.MonkeyPatch) -> None:
    """Take a column of the query around for one of the relation that has the same number."""

    def alone(condition: Node, varno: int) -> bool:
        found = [part for part, _ in walk(condition) if part.tag == "VAR"]
        return bool(found) and all(part["varno"] == varno for part in found)

    patch.setattr(reads, "mentions_alone", alone)
    patch.setattr(reads, "_of_output", lambda *_: [])


def _changed_rule(
    change: Callable[[Level, Definitions, list[Occurrence]], list[Occurrence]],
) -> Patch:
    original = reads.occurrences

    def occurrences(level: Level, definitions: Definitions) -> Iterator[Occurrence]:
        yield from change(level, definitions, list(original(level, definitions)))

    return lambda patch: patch.setattr(statement, "occurrences", occurrences)


def _without_unmatched(
    level: Level, definitions: Definitions, found: list[Occurrence]
) -> list[Occurrence]:
    del definitions
    if command(level.query) is not Command.MERGE:
        return found
    return [replace(one, needs=one.needs[:1]) for one in found]


def _unmatched_alone(
    level: Level, definitions: Definitions, found: list[Occurrence]
) -> list[Occurrence]:
    del definitions
    if command(level.query) is not Command.MERGE:
        return found
    return [replace(one, needs=one.needs[1:]) if len(one.needs) > 1 else one for one in found]


def _source_limited(
    level: Level, definitions: Definitions, found: list[Occurrence]
) -> list[Occurrence]:
    """Let ON of a MERGE count for its source."""
    if command(level.query) is not Command.MERGE:
        return found
    condition = level.query.node("mergeJoinCondition")
    limited = []
    for varno, conditions in reads.counting(level, definitions).items():
        relid = reads.tiered_table(level, varno, definitions)
        if relid:
            both = (*conditions, *conjuncts(condition))
            limited.append(Occurrence(relid, (reads.need(level, varno, both, definitions),)))
    return limited + [one for one in found if one.relid not in {e.relid for e in limited}]


def _first_occurrence_only(patch: pytest.MonkeyPatch) -> None:
    original = reads.occurrences
    seen: dict[int, set[int]] = {}

    def occurrences(level: Level, definitions: Definitions) -> Iterator[Occurrence]:
        if level.outer is None:
            seen.clear()
        for one in original(level, definitions):
            known = seen.setdefault(one.relid, set())
            if not known:
                yield one
            known.add(1)

    patch.setattr(statement, "occurrences", occurrences)


def _pushed_down(patch: pytest.MonkeyPatch) -> None:
    """Let conditions on the output of any subquery count for the tables in it."""
    patch.setattr(reads, "is_plain", lambda query: not query.get("setOperations"))


def _limited_with(field: str) -> Patch:
    """Let a LIMIT count for less than all rows whatever a field of its query says."""
    original = limits.enough

    def enough(level: Level, own: Conditions, every: Conditions, known: Definitions) -> Node | None:
        without = replace(level, query=level.query.replace(**{field: None}))
        return original(without, own, every, known)

    return lambda patch: patch.setattr(reads, "enough", enough)


def _limited_whatever_is_told(patch: pytest.MonkeyPatch) -> None:
    original = reads.enough
    patch.setattr(reads, "enough", lambda level, own, _, known: original(level, own, own, known))


def _without_an_alternative(patch: pytest.MonkeyPatch) -> None:
    """Let all alternatives of a condition but the last one tell what columns have."""
    original = reads.of_alternatives

    def of_alternatives(varno: int, condition: Node, definitions: Definitions) -> Fixed | None:
        found = original(varno, condition, definitions)
        return found and replace(found, rows=found.rows[:-1])

    patch.setattr(reads, "of_alternatives", of_alternatives)


def _without_occurrences(kind: str) -> Patch:
    """Leave out what a search of the constraints finds."""
    original = getattr(writes, kind)

    def search(change: writes.Change, definitions: Definitions, found: writes.Searches) -> object:
        unseen = writes.Searches(recorded=found.recorded)
        return original(change, definitions, unseen)

    return lambda patch: patch.setattr(writes, kind, search)


def _without_recorded(image: Image) -> Callable[[Needs], Needs]:
    def drop(wanted: Needs) -> Needs:
        return replace(
            wanted, recorded=tuple(one for one in wanted.recorded if one.image is not image)
        )

    return drop


def _taken_for_granted(name: str) -> Patch:
    """Do not ask one thing of a subquery that tells of rows of the same table."""
    return lambda patch: patch.setattr(reads, name, lambda *_: True)


def _first_of_set(patch: pytest.MonkeyPatch) -> None:
    """Take what any set operation shows for what its first query does."""

    def first(query: Node) -> Node:
        while query.get("setOperations"):
            query = query.nodes("rtable")[0].node("subquery")
        return query

    shown, is_of = reads._shown, reads._is_of
    patch.setattr(reads, "_shown", lambda query, place: shown(first(query), place))
    patch.setattr(reads, "_is_of", lambda node, query, relid: is_of(node, first(query), relid))


def _found_is_known(patch: pytest.MonkeyPatch) -> None:
    """Take keys that a subquery will find for known: for none."""
    patch.setattr(Need, "known", property(lambda need: need.fixed))


def _nothing_set_off(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(writes, "set_off", lambda *_: [])


_JOINS = ("select",)
_WRITES = ("update", "delete")
_LIMITS = ("limited",)

Conditions = Sequence[Node]

CONTROLS: dict[str, tuple[Patch, Collection[str]]] = {
    "sublinks": (_without("SUBLINK"), ()),
    "subqueries and views": (_without("RANGETBLENTRY"), ()),
    "common table expressions": (_without("COMMONTABLEEXPR"), ("with",)),
    "subqueries in RETURNING": (_without_field("returningList"), _WRITES),
    "subqueries in assigned values": (_without_field("targetList"), _WRITES),
    "subqueries in ON CONFLICT": (_without_field("onConflict"), ("insert",)),
    "subqueries in the actions of MERGE": (_without_field("mergeActionList"), ("merge",)),
    "other tables' columns": (_outer_columns_count, ()),
    "the nullable side of LEFT JOIN": (_joins({places.LEFT: ()}, {}), _JOINS),
    "the nullable side of RIGHT JOIN": (_joins({places.RIGHT: ()}, {}), _JOINS),
    "the nullable sides of FULL JOIN": (_joins({places.FULL: ()}, {}), _JOINS),
    "ON limits what LEFT JOIN keeps": (_joins({}, {places.LEFT: ("larg", "rarg")}), _JOINS),
    "ON limits what RIGHT JOIN keeps": (_joins({}, {places.RIGHT: ("larg", "rarg")}), _JOINS),
    "MERGE: what matches": (_changed_rule(_unmatched_alone), ("merge",)),
    "MERGE: not matched by source": (_changed_rule(_without_unmatched), ("merge",)),
    "MERGE: ON limits the source": (_changed_rule(_source_limited), ("merge",)),
    "HAVING": (_having_counts, _JOINS),
    "conditions on a subquery's output": (_pushed_down, ("derived",)),
    "LIMIT: of rows in an order": (_limited_with("sortClause"), _LIMITS),
    "LIMIT: of rows that others precede": (_limited_with("limitOffset"), _LIMITS),
    "LIMIT: of values that are told apart": (_limited_with("distinctClause"), _LIMITS),
    "LIMIT: other conditions": (_limited_whatever_is_told, _LIMITS),
    "volatile functions": (_volatile_counts, ()),
    "functions of users": (_users_functions_count, ()),
    "alternatives: each of them": (_without_an_alternative, ()),
    "needs of each occurrence": (_first_occurrence_only, ()),
    "unique values that are known": (_without_occurrences("search_unique_keys"), ()),
    "parents": (_without_occurrences("search_parents"), ()),
    "children of known keys": (_without_occurrences("search_children"), _WRITES),
    "what foreign keys set off": (_nothing_set_off, _WRITES),
    "found by a subquery: of another table": (_taken_for_granted("_is_of"), ()),
    "found by a subquery: another column": (_taken_for_granted("_is_same"), ()),
    "found by a subquery: several rows": (_taken_for_granted("_is_unique"), ()),
    "found by a subquery: by a set operation": (_first_of_set, ()),
    "found by a subquery: its children": (_found_is_known, _WRITES),
}
RARE: dict[str, Collection[Form]] = {
    "functions of users": (Form.TESTED,),
    "found by a subquery: of another table": (Form.FOUND, Form.OTHER_TABLE),
    "found by a subquery: another column": (Form.FOUND, Form.OTHER_COLUMN),
    "found by a subquery: several rows": (Form.FOUND, Form.OTHER_KEY),
    "found by a subquery: by a set operation": (Form.FOUND, Form.UNITED),
    "found by a subquery: its children": (Form.FOUND,),
}
"""The forms that some lines are about."""
ANSWERS = {
    "unique values that are recorded": _without_recorded(Image.NEW),
    "children that are recorded": _without_recorded(Image.OLD),
}


@pytest.mark.slow
@pytest.mark.parametrize("line", CONTROLS)
def test_a_line_left_out_is_found(thawing: Thawing, line: str) -> None:
    change, kinds = CONTROLS[line]
    assert found_after(thawing, changed(thawing, change), kinds, RARE.get(line, ()))


@pytest.mark.parametrize("line", ANSWERS)
def test_a_part_of_the_answer_left_out_is_found(thawing: Thawing, line: str) -> None:
    def altered(queries: Sequence[Node]) -> Needs:
        return ANSWERS[line](statement.needs(queries, thawing.definitions))

    assert found_after(thawing, altered, ())


def test_a_function_called_for_rows_that_are_not_all_hot_is_found(
    thawing: Thawing, monkeypatch: pytest.MonkeyPatch
) -> None:
    for sql in campaign(thawing, CONTROL_STATEMENTS, _WRITES, (Form.NOTED,)):
        if thawing.check(sql).verdict is not Verdict.REFUSED:
            continue
        with monkeypatch.context() as patch:
            patch.setattr(users_functions, "refuse", lambda *_: None)
            wanted = statement.needs(thawing.queries(sql), thawing.definitions)
        if thawing.compare(sql, wanted).verdict is Verdict.MISMATCH:
            return
    raise AssertionError(f"not found in {CONTROL_STATEMENTS} statements")


# -- what is searched ------------------------------------------------------------------------------


def _same_digest(tag: str) -> Patch:
    """Take conditions for the same that differ in nodes of one kind only."""
    original = search.condition

    def plain(need: Need, volatility: Callable[[int], str]) -> search.Condition:
        def alike(node: Node, _: int) -> Item | None:
            return Node(tag) if node.tag == tag else None

        kept = [search._meaning(transform(condition, alike)) for condition in need.conditions]
        found = original(need, volatility)
        return replace(found, digest=repr(kept).encode())

    return lambda patch: patch.setattr(search, "condition", plain)


SEARCHES: dict[str, Patch] = {
    "a condition is remembered with its constants": _same_digest("CONST"),
    "a condition is remembered with its columns": _same_digest("VAR"),
}


@pytest.mark.parametrize("line", SEARCHES)
def test_a_search_of_something_else_is_found(
    thawing: Thawing, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    SEARCHES[line](monkeypatch)
    checked = (thawing.check(sql) for sql in campaign(thawing, CONTROL_STATEMENTS))
    assert any(one.verdict is Verdict.MISMATCH for one in checked)


def test_rows_that_just_happen_to_be_hot_are_not_enough(thawing: Thawing) -> None:
    """They are a quarter of those of a schema at least."""
    found = (thawing.compare(sql, Needs(())) for sql in campaign(thawing, 200))
    assert sum(one.verdict is Verdict.MISMATCH for one in found) > 50


@pytest.mark.slow
def test_an_error_before_all_keys_are_known_proves_nothing(thawing: Thawing) -> None:
    for sql in campaign(thawing, CONTROL_STATEMENTS, ("insert",)):
        found = thawing.check(sql)
        if found.verdict is Verdict.UNDECIDED and found.expected and not found.expected.failed:
            return
    raise AssertionError("the full tables always failed, too")
