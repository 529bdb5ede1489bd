"""Writes node trees in the notation that `rewrite.tree` reads, for people to review.

Most fields of most nodes are empty: ``<>``, ``false``, ``0``, ``-1`` or ``()``. One that all nodes
of a tag have is left out where it is as empty as it is usually; for each tag, a node of the usual
fields says what was left out.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from rewrite.tree import _NAME_FIELDS, Item, Node, walk

LONGEST = 100
"""Of more characters a node or a list is broken."""

_EMPTY = ("<>", "false", "0", "-1", "()")
_ESCAPED = re.compile(r"[\s(){}\\\"]")
_PLAIN = re.compile(r"(?!(?:true|false|[ioxb])\Z)[A-Za-z_]\w*\Z")


def usual_fields(trees: Iterable[Item]) -> dict[str, Node]:
    """Return, by tag, what may be left out of the nodes of some trees."""
    nodes: dict[str, list[Node]] = {}
    for tree in trees:
        for node, _ in walk(tree):
            nodes.setdefault(node.tag, []).append(node)
    found = {tag: Node(tag, dict(_usual(nodes[tag]))) for tag in sorted(nodes)}
    return {tag: node for tag, node in found.items() if node.fields}


def _usual(nodes: list[Node]) -> Iterator[tuple[str, Item]]:
    for name in nodes[0].fields:
        if not all(name in node.fields for node in nodes):
            continue
        values = {_word(node[name], name): node[name] for node in nodes}
        found = Counter(_word(node[name], name) for node in nodes)
        word = max(_EMPTY, key=found.__getitem__)
        if word in values:
            yield name, values[word]


def written(item: Item, usual: Mapping[str, Node], indent: int = 0) -> str:
    """Return a tree as text, without what is usual.

    >>> node = Node("VAR", {"varno": 1, "varattno": 2, "varlevelsup": 0})
    >>> written(node, {"VAR": Node("VAR", {"varlevelsup": 0})})
    '{VAR :varno 1 :varattno 2}'
    """
    line = _line(item, usual)
    if indent + len(line) <= LONGEST or not isinstance(item, Node | list):
        return line
    new_line = "\n" + " " * (indent + 1)
    if isinstance(item, list):
        return f"({new_line.join(written(part, usual, indent + 1) for part in item)})"
    text = f"{{{item.tag}"
    for name, value in _unusual(item, usual):
        is_tree = any(True for _ in walk(value))
        text += f"{new_line if is_tree else ' '}:{name}"
        is_long = is_tree or isinstance(value, list)
        text += f" {written(value, usual, indent + 1) if is_long else _word(value, name)}"
    return text + "}"


def completed(item: Item, usual: Mapping[str, Node]) -> Item:
    """Return a tree that was read, with what is usual."""
    if isinstance(item, list):
        return [completed(part, usual) for part in item]
    if not isinstance(item, Node):
        return item
    fields = {name: completed(value, usual) for name, value in item.fields.items()}
    left_out = usual[item.tag].fields if item.tag in usual else {}
    return Node(item.tag, fields | {n: v for n, v in left_out.items() if n not in fields})


def _unusual(node: Node, usual: Mapping[str, Node]) -> Iterator[tuple[str, Item]]:
    left_out = usual[node.tag].fields if node.tag in usual else {}
    for name, value in node.fields.items():
        if name not in left_out or _word(value, name) != _word(left_out[name], name):
            yield name, value


def _line(item: Item, usual: Mapping[str, Node]) -> str:
    if isinstance(item, list):
        return f"({' '.join(_line(part, usual) for part in item)})"
    if not isinstance(item, Node):
        return _word(item)
    fields = (
        f" :{name} {_line(value, usual) if isinstance(value, Node | list) else _word(value, name)}"
        for name, value in _unusual(item, usual)
    )
    return f"{{{item.tag}{''.join(fields)}}}"


def _word(value: Item, name: str = "") -> str:
    """Return a scalar as text; of nodes and lists, only whether there is something in them."""
    match value:
        case str() if name in _NAME_FIELDS:
            return _escaped(value).replace("<", "\\<", 1) if value else '""'
        case str():
            return value if _PLAIN.match(value) else f'"{_escaped(value)}"'
        case bytes():
            return f"{len(value)} [ {''.join(f'{byte} ' for byte in value)}]"
        case list() | Node():
            return "()" if value == [] else "(…)"
    words = {"None": "<>", "True": "true", "False": "false"}
    return words.get(repr(value), repr(value))


def _escaped(value: str) -> str:
    return _ESCAPED.sub(r"\\\g<0>", value)
