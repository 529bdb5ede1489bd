"""One row of a table, as its indexes and CHECK constraints see it: relation 1."""

from typing import Final

from typing_extensions import override

from rewrite.journal.current_rows import CurrentRows
from rewrite.query.compilation import Compilation
from rewrite.query.scopes import QueryScope
from rewrite.tree import Node, parse_item
from rewrite.values import Value

_NO_QUERY: Final = Node("QUERY", {})


class RowScope(QueryScope):
    """One row of a table: relation 1."""

    def __init__(self, compilation: Compilation, rows: CurrentRows) -> None:
        """Take the row for one of the given rows."""
        super().__init__(compilation, _NO_QUERY, None)
        self._rows_read = rows

    @override
    def local(self, varno: int, attno: int) -> Value:
        """Return a column of the row."""
        del varno
        return self._rows_read.column(attno)


def expression_node(text: str) -> Node:
    """Return an expression over a row that PostgreSQL wrote as ``pg_node_tree``."""
    found = parse_item(text)
    if not isinstance(found, Node):
        raise TypeError(text)
    return found
