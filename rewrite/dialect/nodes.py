"""All kinds of expression nodes that have a mapping, by tag; what is not here is refused."""

from typing import Final

from rewrite.dialect import (
    call_nodes,
    coercion_nodes,
    condition_nodes,
    domains,
    leaf_nodes,
    query_nodes,
)
from rewrite.dialect.compiler import NodeHandler

NODES: Final[dict[str, NodeHandler]] = {
    **leaf_nodes.NODES,
    **call_nodes.NODES,
    **coercion_nodes.NODES,
    **domains.NODES,
    **condition_nodes.NODES,
    **query_nodes.NODES,
}
