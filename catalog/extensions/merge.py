"""MERGE with Spark's ``UPDATE SET *`` and ``INSERT *``, as PostgreSQL spells it.

Before: ``MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN
INSERT *``.
After: ``… THEN UPDATE SET "a" = s."a", "b" = s."b" … THEN INSERT ("a", "b") VALUES (s."a",
s."b")``: the columns are those of the target that can be written, by their names in the source.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from catalog.extensions.grammar import RelationPair, Tokens, identifier
from catalog.extensions.translation import Passage, Translation, translation
from catalog.pg.statement_tokens import ScannedToken

_NOTHING = "DO NOTHING"

_BEFORE = ("with", "explain", "prepare")
"""What a statement that has a MERGE in it can begin with."""


@dataclass(frozen=True, slots=True)
class Star:
    """An action that names no columns."""

    start: int
    """Byte where it begins."""
    star: int
    """Byte of the star."""
    end: int
    inserts: bool


@dataclass(frozen=True, slots=True)
class StarredPart:
    """A MERGE with such actions, which may be a part of WITH."""

    target: RelationPair
    source: str
    """What its columns are qualified by, as it is written."""
    stars: tuple[Star, ...]

    def action(self, star: Star, columns: Sequence[str]) -> str:
        """Return one of its actions with the columns of the target."""
        values = [f"{self.source}.{column}" for column in columns]
        if not columns:
            return _NOTHING
        if star.inserts:
            listed, given = ", ".join(columns), ", ".join(values)
            return f"INSERT ({listed}) VALUES ({given})"  # noqa: S608 - quoted
        pairs = zip(columns, values, strict=True)
        return f"UPDATE SET {', '.join(f'{column} = {value}' for column, value in pairs)}"


@dataclass(frozen=True, slots=True)
class StarredMerge:
    """A statement with one or more of them."""

    text: str
    parts: tuple[StarredPart, ...]

    def with_columns(self, columns: Sequence[Sequence[str]]) -> Translation:
        """Return the statement for PostgreSQL; without columns nothing is done.

        Args:
            columns: Those of the target of each part, as SQL.
        """
        tokens, passages, place = Tokens(self.text), [], 0
        stars = [
            (star, part.action(star, listed))
            for part, listed in zip(self.parts, columns, strict=True)
            for star in part.stars
        ]
        for star, action in sorted(stars, key=lambda one: one[0].start):
            passages.append(tokens.passage(place, star.start))
            at = tokens.characters(star.star)
            passages.append(Passage(action, at, is_copied=False))
            place = star.end
        passages.append(tokens.passage(place, len(self.text.encode("utf-8", "surrogateescape"))))
        return translation(passages)


def parse(text: str) -> StarredMerge | None:
    """Return a statement with actions that name no columns; None for any other.

    The rest of it is PostgreSQL's to read.
    """
    tokens = Tokens(text).rest
    if not tokens or not tokens[0].is_word("merge", *_BEFORE):
        return None
    # The name of a prepared statement may be any word.
    first = 2 if tokens[0].is_word("prepare") else 0
    parts = []
    for n in range(first, len(tokens) - 1):
        if not tokens[n].is_word("merge") or not tokens[n + 1].is_word("into"):
            continue
        level = _level(tokens[n:])
        stars = tuple(_stars(level))
        using = next((place for place, one in enumerate(level) if one.is_word("using")), None)
        if not stars or using is None:
            continue
        target, source = _relation(level[2:using]), _source(level[using + 1 :])
        if target is None or source is None:
            return None
        parts.append(StarredPart(target, source, stars))
    return StarredMerge(text, tuple(parts)) if parts else None


def _level(tokens: Sequence[ScannedToken]) -> list[ScannedToken]:
    """Return the tokens of a statement, up to its end, that are in no more parentheses than it."""
    depth = tokens[0].depth
    inside = takewhile(lambda token: token.depth >= depth, tokens)
    return [token for token in inside if token.depth == depth]


def _stars(tokens: Sequence[ScannedToken]) -> list[Star]:
    """Return the actions ``UPDATE SET *`` and ``INSERT *``."""
    found = []
    for n, token in enumerate(tokens):
        words = [one.text.lower() for one in tokens[n : n + 4]]
        if not n or not tokens[n - 1].is_word("then"):
            continue
        if words[:3] == ["update", "set", "*"] and _ends(tokens, n + 3):
            found.append(Star(token.start, tokens[n + 2].start, tokens[n + 2].end, inserts=False))
        elif words[:2] == ["insert", "*"] and _ends(tokens, n + 2):
            found.append(Star(token.start, tokens[n + 1].start, tokens[n + 1].end, inserts=True))
    return found


def _ends(tokens: Sequence[ScannedToken], place: int) -> bool:
    """Return whether an action ends before a token."""
    return place == len(tokens) or tokens[place].is_word("when", "returning")


def _relation(tokens: Sequence[ScannedToken]) -> RelationPair | None:
    """Return the relation that a target names, which may have an alias."""
    words = list(tokens[1:] if tokens and tokens[0].is_word("only") else tokens)
    first = identifier(words[0].text) if words else None
    if first is None or len(words) < 3 or words[1].text != ".":
        return None if first is None else (None, first)
    second = identifier(words[2].text)
    return None if second is None else (first, second)


def _source(tokens: Sequence[ScannedToken]) -> str | None:
    """Return what the columns of a source are qualified by; None for a join."""
    end = next((n for n, token in enumerate(tokens) if token.is_word("on")), None)
    words = list(tokens[:end])
    if end is None or not words or any(token.is_word("join") for token in words):
        return None
    if words[-1].text == ")" and len(words) > 2 and words[-2].text == "(":
        del words[-2:]  # names of its columns
    name = words[-1].text
    return name if identifier(name) is not None else None
