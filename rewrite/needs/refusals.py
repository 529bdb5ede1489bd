"""Statements that are not run on hot rows, whatever rows these are."""

from collections.abc import Sequence

from rewrite.command import Command, command
from rewrite.dialect.oids import FIRST_USER_OID
from rewrite.needs import users_functions
from rewrite.needs.definitions import Definitions
from rewrite.needs.levels import levels
from rewrite.needs.results import Refusal
from rewrite.query.range_table import RELATION
from rewrite.tree import Node, walk

_READERS = frozenset({1294, *range(2923, 2931), *range(2933, 2939), 3685, 3689, 3690})
"""Functions (pg_proc) that read relations they are told in their arguments: currtid2,
table_to_xml and the like, ts_rewrite, ts_stat."""
_TABLEOID = -6
_WRITABLE = frozenset({"r", "p"})
"""relkind of what is written without a trigger's help."""


def refuse(queries: Sequence[Node], definitions: Definitions) -> None:
    """Look for what cannot be understood from the tree.

    Views, policies and defaults are no such thing: PostgreSQL's rewriter put them into the tree.

    Raises:
        Refusal: naming the construct.
    """
    if len(queries) != 1:
        raise Refusal("a statement that rules turn into several is not run on hot rows alone")
    _refuse_nodes(queries[0], definitions)
    for level in levels(queries[0]):
        _refuse_relations(level.query, definitions)
        users_functions.refuse(level, definitions)


def _refuse_nodes(part: Node, definitions: Definitions) -> None:
    for node, _ in walk(part):
        _refuse_node(node)
        if node.tag == "COERCETODOMAIN" and node.integer("resulttype") >= FIRST_USER_OID:
            _refuse_domain(node.integer("resulttype"), definitions)


def _refuse_domain(domain: int, definitions: Definitions) -> None:
    """Look at what a cast to a domain evaluates."""
    if definitions.domain_checks is None:
        raise Refusal("a cast to a domain is not run on hot rows alone")
    for check in definitions.domain_checks(domain):
        _refuse_nodes(check, definitions)


def _refuse_node(node: Node) -> None:
    if node.get("funcid") in _READERS or node.get("opfuncid") in _READERS:
        raise Refusal("a function that reads tables is not run on hot rows alone")
    if node.tag == "VAR" and _TABLEOID != node.integer("varattno") < 0:
        raise Refusal("system columns are not those of hot rows")
    if node.tag == "CURRENTOFEXPR":
        raise Refusal("WHERE CURRENT OF is not run on hot rows alone")


def _refuse_relations(query: Node, definitions: Definitions) -> None:
    for entry in query.nodes("rtable"):
        if entry["rtekind"] != RELATION or entry["relid"] not in definitions.tiered:
            continue
        unfit = definitions.relation(entry.integer("relid")).unfit
        if unfit:
            raise Refusal(f"a table with {unfit} is not read on hot rows alone")
        if entry.get("tablesample") is not None:
            raise Refusal("TABLESAMPLE takes its sample from all rows")
    if command(query) is not Command.SELECT:
        target = query.nodes("rtable")[query.integer("resultRelation") - 1]
        if target.get("relkind") not in _WRITABLE:
            raise Refusal("what INSTEAD OF triggers write is not known")
