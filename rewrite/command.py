"""What an analysed query does: read, or write which relation, from which others."""

from enum import IntEnum

from rewrite.tree import Node, walk


class Command(IntEnum):
    """CmdType of PostgreSQL's nodes/nodes.h."""

    SELECT = 1
    UPDATE = 2
    INSERT = 3
    DELETE = 4
    MERGE = 5


def command(query: Node) -> Command:
    """Return what kind of query this is."""
    return Command(query.integer("commandType"))


def target_relation(query: Node) -> int:
    """Return the OID of the relation a query writes."""
    return query.nodes("rtable")[query.integer("resultRelation") - 1].integer("relid")


def source_relations(query: Node) -> frozenset[int]:
    """Return the OIDs of the relations a query reads besides the rows it writes."""
    target = query.nodes("rtable")[query.integer("resultRelation") - 1]
    found = (
        node.get("relid")
        for node, _ in walk(query)
        if node.tag == "RANGETBLENTRY" and node is not target
    )
    return frozenset(relid for relid in found if isinstance(relid, int) and relid)
