"""What an expression reads of the queries around its own."""

from rewrite.tree import Item, walk

_LEVELS = {"VAR": "varlevelsup", "AGGREF": "agglevelsup", "GROUPINGFUNC": "agglevelsup"}


def reads_outside(item: Item) -> bool:
    """Whether an expression reads columns or aggregates of the queries around its own."""
    for node, depth in walk(item):
        name = _LEVELS.get(node.tag)
        if name is not None and node.integer(name) > depth:
            return True
    return False
