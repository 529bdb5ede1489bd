"""Columns of CREATE TABLE with Spark's names of types beside PostgreSQL's.

Names that both know mean what they mean in PostgreSQL: ``timestamp`` is one without time zone, and
``float`` is double precision.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from catalog.errors import GatewayError
from catalog.extensions.grammar import NESTED, Tokens, identifier, is_string
from catalog.extensions.translation import Passage
from catalog.pg.sqlstate import FEATURE_NOT_SUPPORTED
from catalog.pg.statement_tokens import ScannedToken

_TYPES: Final = {
    "string": "text",
    "double": "double precision",
    "tinyint": "smallint",
    "byte": "smallint",
    "short": "smallint",
    "long": "bigint",
    "binary": "bytea",
    "timestamp_ntz": "timestamp without time zone",
    "timestamp_ltz": "timestamp with time zone",
}
"""Spark's names that PostgreSQL does not know."""

_CONSTRAINTS: Final = frozenset(
    {"constraint", "primary", "unique", "check", "foreign", "exclude", "like"}
)
"""First words of elements that are no columns."""


@dataclass(frozen=True, slots=True)
class Element:
    """A column or a constraint, as PostgreSQL reads it."""

    passages: tuple[Passage, ...]
    column: str = ""
    """Name of the column, as it is written."""
    comment: str = ""
    """Its comment, as it is written."""
    key: tuple[str, ...] = ()
    """Columns of the primary key, where the element has it."""


def read(statement: Tokens, tokens: Sequence[ScannedToken]) -> Element:
    """Return an element with PostgreSQL's names of types.

    Raises:
        GatewayError: 0A000 for maps, structures and arrays of arrays.
    """
    first = tokens[0]
    key = _key(tokens)
    if first.text.lower() in _CONSTRAINTS and first.text[:1] != '"':
        return Element((statement.passage(first.start, tokens[-1].end),), key=key)
    replaced, length = _type(tokens)
    passages = [statement.passage(first.start, first.end)]
    rest = list(tokens[1:])
    if replaced:
        place = statement.characters(tokens[1].start)
        passages.append(Passage(f" {replaced}", place, is_copied=False))
        rest = rest[length:]
    comment = ""
    for part, found in _around_comments(rest):
        comment = found or comment
        if part:
            place = statement.characters(part[0].start)
            passages.append(Passage(" ", place, is_copied=False))
            passages.append(statement.passage(part[0].start, part[-1].end))
    return Element(tuple(passages), first.text, comment, key)


def _around_comments(
    tokens: Sequence[ScannedToken],
) -> Iterator[tuple[list[ScannedToken], str]]:
    """Yield the tokens before each COMMENT 'text' with that text, and the rest."""
    part: list[ScannedToken] = []
    number = 0
    while number < len(tokens):
        following = tokens[number + 1] if number + 1 < len(tokens) else None
        if tokens[number].is_word("comment") and following is not None and is_string(following):
            yield part, following.text
            part, number = [], number + 2
        else:
            part.append(tokens[number])
            number += 1
    yield part, ""


def _key(tokens: Sequence[ScannedToken]) -> tuple[str, ...]:
    """Return the columns of a primary key among the tokens of an element."""
    words = [token.text.lower() for token in tokens]
    for number, word in enumerate(words[:-1]):
        if word != "primary" or words[number + 1] != "key":
            continue
        listed = tokens[number + 3 : words.index(")", number)] if ")" in words[number:] else ()
        names = [identifier(token.text) for token in listed if token.text != ","]
        is_column = words[0] not in _CONSTRAINTS
        if is_column:
            names = [identifier(tokens[0].text)]
        return tuple(name for name in names if name)
    return ()


def _type(tokens: Sequence[ScannedToken]) -> tuple[str, int]:
    """Return the type of a column for PostgreSQL, and of how many tokens; none where it has one."""
    words = [token.text.lower() for token in tokens[1:]]
    if not words:
        return "", 0
    if words[0] in NESTED and words[1:2] == ["<"]:
        end = next((n for n, word in enumerate(words) if word == ">"), 0)
        if words[0] != "array" or not end or not NESTED.isdisjoint(words[2:end]):
            raise GatewayError(
                f"column {tokens[0].text} of type {words[0]} is not supported",
                sqlstate=FEATURE_NOT_SUPPORTED,
                hint="Use jsonb, or an array of plain values.",
            )
        element = _TYPES.get(words[2]) if end == 3 else None
        # As it is written: a name in quotes has upper-case letters.
        written = [token.text for token in tokens[3 : end + 1]]
        return f"{element or _joined(written)}[]", end + 1
    if words[0] == "double" and words[1:2] == ["precision"]:
        return "", 0
    found = _TYPES.get(words[0])
    return (found, 1) if found else ("", 0)


def _joined(words: Sequence[str]) -> str:
    return " ".join(words)
