"""The query that finds the rows a condition asks for, and whether it finds the same ones later."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from rewrite.dialect.oids import INT8
from rewrite.needs.results import Need
from rewrite.query.predicates import conjuncts
from rewrite.tree import Item, Node, transform, walk

_CALLED = frozenset({"funcid", "opfuncid"})
_IMMUTABLE = "i"
_AND = "and"
_SPELLING = frozenset({"location", "varattnosyn", "varnosyn"})
"""Fields that tell where, and by what name, something stands in the text of a statement."""


@dataclass(frozen=True, slots=True)
class Condition:
    """What tells the rows that a need is of."""

    need: Need
    digest: bytes
    """Equal only for equal conditions of one table."""
    parameters: tuple[int, ...]
    """Numbers of the statement's parameters in it, from 1."""
    is_lasting: bool
    """Whether it is about nothing but the row and these parameters: not the time, not settings."""
    order: bytes = b""
    """Equal only for equal orders in which the rows are taken; empty where all are needed."""

    def first(self, number: int) -> "Condition":
        """Return the condition for so many rows, the first in the order they are taken."""
        return replace(self, need=replace(self.need, enough=_int8(number)))


def condition(need: Need, volatility: Callable[[int], str]) -> Condition:
    """Return what a need with conditions asks for.

    Args:
        need: The need.
        volatility: ``pg_proc.provolatile`` of a built-in function by OID.
    """
    order = [*need.queue.sort, *need.queue.values] if need.queue else []
    nodes = [node for part in (*need.conditions, *order) for node, _ in walk(part)]
    parameters = {node.integer("paramid") for node in nodes if node.tag == "PARAM"}
    called = {node.integer(name) for node in nodes for name in _CALLED & node.fields.keys()}
    lasting = all(volatility(function) == _IMMUTABLE for function in called)
    plain = all(node.tag != "SQLVALUEFUNCTION" for node in nodes)
    return Condition(
        need,
        _digest(need.conditions, need.varno),
        tuple(sorted(parameters)),
        lasting and plain,
        b"" if need.queue is None else _digest(order, need.varno),
    )


def search(template: Node, need: Need, *, few: bool = False) -> Node:
    """Return the query for the rows of a need.

    Args:
        template: ``SELECT * FROM ONLY`` the table.
        need: A need with conditions, or of which few rows are enough.
        few: Whether only so many are wanted as are enough.
    """
    found: list[Item] = [_as_first(quals, need.varno) for quals in need.conditions]
    every: Item = Node("BOOLEXPR", {"boolop": _AND, "args": found}) if found else None
    quals = found[0] if len(found) == 1 else every
    query = template.replace(jointree=template.node("jointree").replace(quals=quals))
    if not few:
        return query
    return _sorted(query.replace(limitCount=need.enough), need)


def _sorted(query: Node, need: Need) -> Node:
    """Return a query for rows with the order in which they are taken, if there is one."""
    if need.queue is None or not need.queue.sort:
        return query
    shown = query.nodes("targetList")
    values: list[Item] = [
        _as_first(value, need.varno).replace(resno=number, resname=None, resjunk=True)
        for number, value in enumerate(need.queue.values, len(shown) + 1)
    ]
    sort: list[Item] = list(need.queue.sort)
    return query.replace(targetList=[*shown, *values], sortClause=sort)


def is_whole(query: Node, need: Need) -> bool:
    """Return whether the rows of a need are those that an UPDATE or DELETE changes, all of them."""
    jointree = query.node("jointree")
    if need.enough is not None:
        return False
    if len(jointree.items("fromlist")) != 1 or query.items("cteList"):
        return False
    return list(map(repr, conjuncts(jointree["quals"]))) == list(map(repr, need.conditions))


def _int8(number: int) -> Node:
    return Node(
        "CONST",
        {
            "consttype": INT8,
            "consttypmod": -1,
            "constcollid": 0,
            "constlen": 8,
            "constbyval": True,
            "constisnull": False,
            "location": -1,
            "constvalue": number.to_bytes(8, "little", signed=True),
        },
    )


def _digest(parts: Sequence[Node], varno: int) -> bytes:
    text = repr([_meaning(_as_first(part, varno)) for part in parts])
    return sha256(text.encode("utf-8", "surrogateescape")).digest()


def _meaning(item: Item) -> Item:
    """Return a condition without what is of its text alone."""
    if isinstance(item, list):
        return [_meaning(part) for part in item]
    if not isinstance(item, Node):
        return item
    kept = {name: value for name, value in item.fields.items() if name not in _SPELLING}
    return Node(item.tag, {name: _meaning(value) for name, value in kept.items()})


def _as_first(condition: Node, varno: int) -> Node:
    """Return a condition on one relation as one on the first of a query."""

    def first(node: Node, _: int) -> Item | None:
        return node.replace(varno=1) if node.tag == "VAR" and node["varno"] == varno else None

    changed = transform(condition, first)
    return changed if isinstance(changed, Node) else condition
