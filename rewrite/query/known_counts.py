"""How many rows a whole table has, where the list of its segments says so.

Before: ``SELECT count(*), count(id) FROM t``, of a table whose rows are all in its base.
After: ``SELECT CAST(5000 AS BIGINT) AS g1_a1, CAST(5000 AS BIGINT) AS g1_a2``.

A base has one version of each row and no tombstones, so its rows are the table's as long as nothing
is newer: no deltas, and no tail, which hot rows would be in. Both are those of the statement's
snapshot.

Not handled (Spark counts): conditions, joins, groups, other aggregates beside, columns that are not
of the primary key, tables with anything newer than the base, journals of others, partitioned ones.
"""

from rewrite.dialect.functions import procedure
from rewrite.journal.current_rows import CurrentRows
from rewrite.query.scopes import FromScope, QueryScope
from rewrite.tree import Node, walk

_COUNT_ALL = "count()"
_COUNT = "count(any)"


def known_count(scope: QueryScope) -> int | None:
    """Return what all aggregates of a query that has no groups are, or None."""
    query = scope.query
    if not isinstance(scope, FromScope) or query.items("groupClause"):
        return None
    if query.items("groupingSets") or query["hasSubLinks"] or len(scope.relations) != 1:
        return None
    ((varno, rows),) = scope.relations.items()
    items = query.node("jointree").nodes("fromlist")
    is_alone = len(items) == 1 and items[0].tag == "RANGETBLREF"
    if not is_alone or query.node("jointree")["quals"] is not None:
        return None
    if not isinstance(rows, CurrentRows) or rows.exact is None:
        return None
    aggregates = [
        node
        for node, _ in walk([query.items("targetList"), query["havingQual"]])
        if node.tag == "AGGREF"
    ]
    if not all(_counts_all(node, varno, rows) for node in aggregates):
        return None
    return rows.exact


def _counts_all(node: Node, varno: int, rows: CurrentRows) -> bool:
    """Tell whether an aggregate counts all rows of a relation."""
    if node["agglevelsup"] or node["aggfilter"] is not None or node.items("aggdistinct"):
        return False
    key, _ = procedure(node.integer("aggfnoid"))
    if key == _COUNT_ALL:
        return True
    if key != _COUNT:
        return False
    argument = node.nodes("args")[0].node("expr")
    if argument.tag != "VAR" or (argument["varno"], argument["varlevelsup"]) != (varno, 0):
        return False
    attno = argument.integer("varattno")
    # NOT NULL may be NOT VALID; of a primary key's columns it is not.
    return attno in rows.key
