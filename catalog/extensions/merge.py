"""MERGE with Spark's ``UPDATE SET *`` and ``INSERT *``, as PostgreSQL spells it.

Before: ``MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN
INSERT *``.
After: ``… THEN UPDATE SET "a" = s."a", "b" = s."b" … THEN INSERT ("a", "b") VALUES (s."a",
s."b")``: the columns are those of the target that can be written, by their names in the source.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from catalog.extensions.grammar import RelationPair, Tokens, identifier
from catalog.extensions.translation import Passage, Translation, translation
from catalog.pg.statement_tokens import ScannedToken

_NOTHING = "DO NOTHING"

_BEFORE = ("with", "explain", "prepare")
"""What a statement with a MERGE at its end can begin with."""


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
class StarredMerge:
    """A MERGE with such actions."""

    text: str
    target: RelationPair
    source: str
    """What its columns are qualified by, as it is written."""
    stars: tuple[Star, ...]

    def with_columns(self, columns: Sequence[str]) -> Translation:
        """Return the statement for PostgreSQL; without columns nothing is done.

        Args:
            columns: Those of the target, as SQL.
        """
        tokens, passages, place = Tokens(self.text), [], 0
        for star in self.stars:
            passages.append(tokens.passage(place, star.start))
            at = tokens.characters(star.star)
            passages.append(Passage(self._action(star, columns), at, is_copied=False))
            place = star.end
        passages.append(tokens.passage(place, len(self.text.encode("utf-8", "surrogateescape"))))
        return translation(passages)

    def _action(self, star: Star, columns: Sequence[str]) -> str:
        values = [f"{self.source}.{column}" for column in columns]
        if not columns:
            return _NOTHING
        if star.inserts:
            listed, given = ", ".join(columns), ", ".join(values)
            return f"INSERT ({listed}) VALUES ({given})"  # noqa: S608 - quoted
        pairs = zip(columns, values, strict=True)
        return f"UPDATE SET {', '.join(f'{column} = {value}' for column, value in pairs)}"


def parse(text: str) -> StarredMerge | None:
    """Return a MERGE with actions that name no columns; None for any other statement.

    The rest of it is PostgreSQL's to read.
    """
    outer = [token for token in Tokens(text).rest if token.depth == 0]
    # The name of a prepared statement may be any word.
    named = 2 if outer and outer[0].is_word("prepare") else 0
    first = next((n for n, one in enumerate(outer) if n >= named and one.is_word("merge")), None)
    if first is None or (first > 0 and not outer[0].is_word(*_BEFORE)):
        return None
    outer = outer[first:]
    stars = tuple(_stars(outer))
    using = next((n for n, token in enumerate(outer) if token.is_word("using")), None)
    if not stars or using is None or not outer[1].is_word("into"):
        return None
    target = _relation(outer[2:using])
    source = _source(outer[using + 1 :])
    if target is None or source is None:
        return None
    return StarredMerge(text, target, source, stars)


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
