"""A column of a relation where it stands alone in a comparison."""

from typing import Final

from rewrite.dialect import oids
from rewrite.tree import Node

_SAME_VALUES: Final = frozenset({oids.TEXT, oids.VARCHAR})
"""Types that a column is taken as without values becoming equal, or others."""


def compared_column(node: Node, varno: int, condition: Node, levels_up: int = 0) -> int:
    """Return the attribute number of a column of a relation, 0 for anything else.

    A column that is compared by another collation than its own is something else: its constraints
    hold other values for equal. So is text that is compared as character(n), or an integer as oid.

    Args:
        node: One side of a comparison.
        varno: The relation.
        condition: The comparison.
        levels_up: How many queries further out the relation stands.
    """
    while node.tag == "RELABELTYPE" and node["resulttype"] in _SAME_VALUES:
        node = node.node("arg")
    if node.tag != "VAR" or node["varno"] != varno or node["varlevelsup"] != levels_up:
        return 0
    if node["varcollid"] != condition["inputcollid"]:
        return 0
    return max(node.integer("varattno"), 0)
