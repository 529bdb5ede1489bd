"""Where the relations of a FROM clause stand, and which conditions count there.

A condition counts for a relation when removing the rows of the relation for which it is not true
leaves the result as it is. That holds for WHERE and for ON of an inner join unless an outer join in
between fills up with NULLs what no row was found for, and for ON of an outer join on the side that
it fills up. HAVING never counts: it sees groups.
"""

from dataclasses import dataclass
from typing import Final

from catalog.pg.nodes import JoinType
from rewrite.query.predicates import conjuncts
from rewrite.tree import Node

INNER, LEFT = JoinType.INNER, JoinType.LEFT
FULL, RIGHT = JoinType.FULL, JoinType.RIGHT

FILLED: Final[dict[int, tuple[str, ...]]] = {
    INNER: (),
    LEFT: ("rarg",),
    RIGHT: ("larg",),
    FULL: ("larg", "rarg"),
}
"""The sides that a join fills up with NULLs, by ``jointype``."""
LIMITED: Final[dict[int, tuple[str, ...]]] = {
    INNER: ("larg", "rarg"),
    LEFT: ("rarg",),
    RIGHT: ("larg",),
    FULL: (),
}
"""The sides whose rows ON limits."""


@dataclass(frozen=True, slots=True)
class Places:
    """The relations of a subtree of FROM."""

    conditions: dict[int, tuple[Node, ...]]
    """The conjuncts that count for each relation, whatever else they mention, by varno."""
    nullable: frozenset[int] = frozenset()
    """Relations whose rows an outer join may replace by NULLs."""

    def limited(self, conditions: list[Node]) -> "Places":
        """Return the same relations where further conditions have to be true."""
        added = tuple(conditions)
        return Places(
            {
                varno: found if varno in self.nullable else found + added
                for varno, found in self.conditions.items()
            },
            self.nullable,
        )

    def filled(self) -> "Places":
        """Return the same relations on the side of a join that is filled up."""
        return Places(self.conditions, frozenset(self.conditions))

    def beside(self, other: "Places") -> "Places":
        """Return the relations of both."""
        return Places(self.conditions | other.conditions, self.nullable | other.nullable)


def places(query: Node) -> Places:
    """Return the relations of a query's FROM clause."""
    return _places(query.node("jointree"))


def _places(node: Node) -> Places:
    if node.tag == "RANGETBLREF":
        return Places({node.integer("rtindex"): ()})
    if node.tag == "FROMEXPR":
        found = Places({})
        for item in node.nodes("fromlist"):
            found = found.beside(_places(item))
        return found.limited(conjuncts(node.get("quals")))
    kind = node.integer("jointype")
    on = conjuncts(node.get("quals"))
    sides = Places({})
    for name in ("larg", "rarg"):
        side = _places(node.node(name))
        side = side.limited(on) if name in LIMITED[kind] else side
        sides = sides.beside(side.filled() if name in FILLED[kind] else side)
    return sides
