"""What an expression reads of the queries around its own."""

from typing import Final

from rewrite.tree import Item, walk

LEVELS: Final = {"VAR": "varlevelsup", "AGGREF": "agglevelsup", "GROUPINGFUNC": "agglevelsup"}
"""Nodes that can belong to a query further out, and what tells how far."""


def reads_outside(item: Item) -> bool:
    """Return whether an expression reads columns or aggregates of the queries around its own."""
    for node, depth in walk(item):
        name = LEVELS.get(node.tag)
        if name is not None and node.integer(name) > depth:
            return True
    return False
