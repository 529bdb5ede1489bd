"""Reads node trees as PostgreSQL prints them (``debug_print_rewritten``, ``pg_node_tree``).

Knows the notation of ``outfuncs.c`` and nothing about what the nodes mean.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

Scalar: TypeAlias = bool | int | float | str | bytes | None

_TOKEN = re.compile(r"[(){}]|(?:[^\s(){}\\]|\\[\s\S])+")
_ESCAPED = re.compile(r"\\([\s\S])")

_WORDS: dict[str, Scalar] = {"<>": None, "true": True, "false": False, '""': ""}
_LIST_PREFIXES = frozenset({"i", "o", "x", "b"})
# Fields that hold a name, so that a column called "true" or "7" stays one.
_NAME_FIELDS = frozenset(
    {
        "aliasname",
        "conname",
        "ctename",
        "cursor_name",
        "enrname",
        "name",
        "refname",
        "relname",
        "resname",
        "returningNewAlias",
        "returningOldAlias",
        "schemaname",
    }
)


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One node: its tag in upper case and its fields by PostgreSQL's own names."""

    tag: str
    fields: dict[str, "Item"] = field(default_factory=dict)

    def __getitem__(self, name: str) -> "Item":
        """Return the field; KeyError when PostgreSQL did not print it."""
        return self.fields[name]

    def get(self, name: str, default: "Item" = None) -> "Item":
        """Return the field, or the default where this server version does not print it."""
        return self.fields.get(name, default)

    def node(self, name: str) -> "Node":
        """Return a field that must be a node."""
        value = self.fields[name]
        if not isinstance(value, Node):
            raise TypeError(f"{self.tag}.{name} is not a node")
        return value

    def optional(self, name: str) -> "Node | None":
        """Return a field that is a node or empty."""
        value = self.fields.get(name)
        return value if isinstance(value, Node) else None

    def items(self, name: str) -> "list[Item]":
        """Return a list field, empty where PostgreSQL printed ``<>``."""
        value = self.fields.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise TypeError(f"{self.tag}.{name} is not a list")
        return value

    def nodes(self, name: str) -> "list[Node]":
        """Return a list of nodes, empty where PostgreSQL printed ``<>``."""
        return [item for item in self.items(name) if isinstance(item, Node)]

    def integers(self, name: str) -> list[int]:
        """Return a list of integers or OIDs, empty where PostgreSQL printed ``<>``."""
        return [item for item in self.items(name) if isinstance(item, int)]

    def integer(self, name: str, default: int | None = None) -> int:
        """Return an integer field."""
        value = self.fields.get(name, default)
        if not isinstance(value, int):
            raise TypeError(f"{self.tag}.{name} is not an integer")
        return value

    def text(self, name: str) -> str | None:
        """Return a field that is a word, or None where PostgreSQL printed ``<>``."""
        value = self.fields.get(name)
        return value if isinstance(value, str) else None

    def replace(self, **changes: "Item") -> "Node":
        """Return a copy with some fields changed."""
        return Node(self.tag, {**self.fields, **changes})


Item: TypeAlias = Node | Scalar | list["Item"]


def parse_item(text: str) -> Item:  # noqa: C901, PLR0912 - one loop, for speed
    r"""Parse one printed node, list or word.

    >>> parse_item("{VAR :varno 1 :varattno 2}").fields
    {'varno': 1, 'varattno': 2}
    >>> parse_item("{CONST :constlen 4 :constvalue 4 [ 1 -1 0 0 ]}")["constvalue"]
    b'\x01\xff\x00\x00'
    """
    words = iter(_TOKEN.findall(text))
    result: list[Item] = []
    # Frames of what is open: a list, or (tag, fields). `name` is the field waiting for its value.
    lists: list[list[Item] | tuple[str, dict[str, Item]]] = [result]
    names: list[str | None] = []
    name: str | None = None
    for word in words:
        frame = lists[-1]
        if word == "{":
            names.append(name)
            lists.append((next(words), {}))
            name = None
            continue
        if word == "(":
            names.append(name)
            lists.append([])
            name = None
            continue
        value: Item
        if word in {"}", ")"}:
            value = frame if isinstance(frame, list) else Node(*frame)
            lists.pop()
            frame = lists[-1]
            name = names.pop()
        elif isinstance(frame, list):
            if not frame and word in _LIST_PREFIXES:
                continue
            value = _scalar(word)
        elif word == "[" and name is None:
            # A Datum follows its length, which the field holds already.
            last = next(reversed(frame[1]))
            frame[1][last] = _datum(words)
            continue
        elif name is None and word[0] == ":":
            name = word[1:]
            continue
        elif name in _NAME_FIELDS:
            value = _name(word)
        else:
            value = _scalar(word)
        if isinstance(frame, list):
            frame.append(value)
        else:
            frame[1][name or ""] = value
            name = None
    if len(lists) != 1 or len(result) != 1:
        raise ValueError("malformed node tree")
    return result[0]


def _datum(words: Iterator[str]) -> bytes:
    return bytes(int(word) & 0xFF for word in iter(words.__next__, "]"))


def _name(word: str) -> str | None:
    if word == "<>":
        return None
    return _ESCAPED.sub(r"\1", word) if word != '""' else ""


def _scalar(word: str) -> Scalar:
    if word in _WORDS:
        return _WORDS[word]
    first = word[0]
    if first == '"':
        return _ESCAPED.sub(r"\1", word[1:-1])
    if first in "-0123456789":
        try:
            return int(word)
        except ValueError:
            return float(word)
    return _ESCAPED.sub(r"\1", word) if "\\" in word else word


def transform(item: Item, change: Callable[[Node, int], Item | None], depth: int = 0) -> Item:
    """Rebuild a tree, replacing every node for which ``change`` returns something.

    ``change`` gets the node and the number of queries entered on the way to it. What it returns is
    not visited again; None keeps the node and visits its fields.
    """
    if isinstance(item, list):
        changed = [transform(element, change, depth) for element in item]
        return changed if any(a is not b for a, b in zip(changed, item, strict=True)) else item
    if not isinstance(item, Node):
        return item
    replacement = change(item, depth)
    if replacement is not None:
        return replacement
    inside = depth + 1 if item.tag == "QUERY" else depth
    changes: dict[str, Item] = {}
    for name, value in item.fields.items():
        if isinstance(value, Node | list):
            new = transform(value, change, inside)
            if new is not value:
                changes[name] = new
    return item.replace(**changes) if changes else item


def walk(item: Item, depth: int = 0) -> Iterator[tuple[Node, int]]:
    """Yield every node with the number of queries entered on the way to it, outermost first."""
    pending: list[tuple[Item, int]] = [(item, depth)]
    while pending:
        current, level = pending.pop()
        if isinstance(current, list):
            pending.extend((element, level) for element in reversed(current))
        elif isinstance(current, Node):
            yield current, level
            inside = level + 1 if current.tag == "QUERY" else level
            for value in reversed(current.fields.values()):
                if isinstance(value, Node | list):
                    pending.append((value, inside))  # noqa: PERF401 - most fields are no trees


# Fields that do not change what an expression means (see the equal functions of PostgreSQL).
_IGNORED = frozenset(
    {"location", "list_start", "list_end", "varnosyn", "varattnosyn", "relabelformat", "funcformat"}
)


def same(left: Item, right: Item) -> bool:
    """Whether two trees are equal apart from where they were written."""
    if isinstance(left, Node) and isinstance(right, Node):
        return left.tag == right.tag and all(
            same(value, right.fields.get(name))
            for name, value in left.fields.items()
            if name not in _IGNORED
        )
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(same(a, b) for a, b in zip(left, right, strict=True))
    return type(left) is type(right) and left == right
