"""MERGE that does nothing, whatever rows there are: PostgreSQL may run it without them.

Not handled: conditions, and what the source or a view computes, that could fail for a row, or be
seen to have been evaluated. Whether they are depends on the rows.
"""

from typing import Final

from rewrite.command import Command, command, merge_actions
from rewrite.query.failing import is_total
from rewrite.tree import Node, walk

_STRUCTURE: Final = frozenset(
    {
        *("ALIAS", "FROMEXPR", "JOINEXPR", "MERGEACTION", "QUERY", "RANGETBLENTRY", "RANGETBLREF"),
        *("RTEPERMISSIONINFO", "TARGETENTRY"),
    }
)
_PLAIN: Final = frozenset(
    {
        *("BOOLEANTEST", "BOOLEXPR", "CASEEXPR", "CASETESTEXPR", "CASEWHEN", "COALESCEEXPR"),
        *("CONST", "NULLTEST", "PARAM", "RELABELTYPE", "VAR"),
    }
)
"""Expressions that fail only where their parts do."""


def is_idle(query: Node) -> bool:
    """Return whether a query is such a MERGE."""
    if command(query) is not Command.MERGE:
        return False
    if any(action.command is not None for action in merge_actions(query)):
        return False
    # Nothing is returned of rows to which nothing is done.
    evaluated = query.replace(returningList=None)
    return all(
        node.tag in _STRUCTURE or node.tag in _PLAIN or is_total(node)
        for node, _ in walk(evaluated)
    )
