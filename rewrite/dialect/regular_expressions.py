"""Regular expressions that mean the same to PostgreSQL and to Java.

PostgreSQL takes the longest of the matches that begin first, Java the first that it comes to.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from rewrite.dialect import oids
from rewrite.dialect.ambiguity import is_too_ambiguous
from rewrite.dialect.regular_expression_tokens import SPACES, Token, tokens_of
from rewrite.errors import UnsupportedError

_CLASSES: Final = {
    r"\s": f"[{SPACES}]",
    r"\S": f"[^{SPACES}]",
    r"\D": "[^0-9]",
}


def java_pattern(pattern: str, *, fold: bool = False) -> str:
    r"""Return the Java pattern that matches what PostgreSQL's does; refuse all but plain ones.

    PostgreSQL's dot matches line ends, and its ``$`` only the end of the text.

    Args:
        pattern: PostgreSQL's.
        fold: Whether case is ignored; the caller tells Java.

    >>> java_pattern("^a.b$")
    '(?s)^a.b\\z'
    """
    tokens = list(tokens_of(pattern))
    if (java := _unwound(tokens)) is not None:
        return java
    _require_few_ways(pattern, tokens, fold=fold)
    return "(?s)" + "".join(map(_in_java, tokens))


def _unwound(tokens: Sequence[Token]) -> str | None:
    r"""Return the Java pattern of single characters and ``.*``; None for all others.

    As of LIKE, the first place that fits is the best one for what stands between two ``.*``, so
    none is ever tried again.

    >>> _unwound(list(tokens_of("a.*b[cd].+e$")))
    '(?s)^(?>.*?a)(?>.*?b[cd].).*e\\z'
    >>> _unwound(list(tokens_of("a.*b*")))
    """
    pieces, dot = [""], Token("atom", ".")
    for before, token, after in zip([None, *tokens], tokens, [*tokens[1:], None], strict=False):
        if token.kind == "quantifier" and before == dot and token.text in {"*", "+"}:
            pieces.append("")
        elif token.kind in {"quantifier", "open", "bar"}:
            return None
        elif token != dot or after != Token("quantifier", "*"):
            pieces[-1] += _in_java(token)
    if len(pieces) < 2:
        return None
    is_begun, is_ended = tokens[0].kind == "start", tokens[-1].kind == "end"
    begin = pieces.pop(0) if is_begun else "^"
    end = ".*" + pieces.pop() if is_ended else ""
    return f"(?s){begin}" + "".join(f"(?>.*?{piece})" for piece in pieces if piece) + end


@dataclass(frozen=True, slots=True)
class Extent:
    """A regular expression of which Java finds the same matches as PostgreSQL."""

    pattern: str
    """In Java's form, with its groups, and without flags."""
    groups: int
    begins: bool
    """Whether it matches at the beginning of a text alone."""


def extent(pattern: str, *, fold: bool = False) -> Extent:
    r"""Return a regular expression that both match with the same characters; refuse others.

    It is a sequence of characters and sets of these, repeated or not, in which groups are not
    repeated: of two ways to match it, the one that takes more for the first of those that differ is
    nowhere behind the other one, so that the first one found is the longest. Or it is a choice of
    texts of which none begins another one. No match is empty, which the two would count in another
    way.

    >>> extent("^(a+)b*$").pattern
    '^(a+)b*\\z'
    """
    refusal = UnsupportedError(
        f"the extent of what the regular expression {pattern!r} matches is not supported"
    )
    tokens = list(tokens_of(pattern))
    kinds = [token.kind for token in tokens]
    if not (_is_choice(tokens) if "bar" in kinds else _is_sequence(tokens)):
        raise refusal
    _require_few_ways(pattern, tokens, fold=fold)
    java = "".join(
        "(" if token.text == "(" else _in_java(token)  # it counts
        for token in tokens
    )
    groups = sum(token.text == "(" for token in tokens)
    return Extent(java, groups, kinds[0] == "start")


def require_collation(pattern: str, collation: int) -> None:
    """Refuse a pattern where this collation has other white space than Unicode."""
    if re.search(r"\\[sS]", pattern) and collation not in {
        oids.DEFAULT_COLLATION,
        oids.PG_C_UTF8,
    }:
        raise UnsupportedError("white space in a pattern with this collation is not supported")


def _require_few_ways(pattern: str, tokens: list[Token], *, fold: bool) -> None:
    """Refuse a pattern on which a thread of Java might be busy for ever: nothing can end it."""
    if is_too_ambiguous(tuple(tokens), fold=fold):
        raise UnsupportedError(
            f"regular expression {pattern!r} is not supported:"
            " there are too many ways to match a text with it"
        )


def _is_choice(tokens: list[Token]) -> bool:
    words = [""]
    for token in tokens:
        literal = token.text.removeprefix("\\")
        if token.kind == "bar":
            words.append("")
        elif token.kind == "atom" and token.text not in {".", *_CLASSES, r"\d"}:
            words[-1] += literal
        else:
            return False
    return not any(
        number != other and longer.startswith(word)
        for number, word in enumerate(words)
        for other, longer in enumerate(words)
    )


def _is_sequence(tokens: list[Token]) -> bool:
    """Tell whether this is a sequence of what cannot be empty as a whole, in groups one deep."""
    kinds = [token.kind for token in tokens]
    groups = [kind for kind in kinds if kind in {"open", "close"}]
    if ("open", "open") in pairwise(groups) or ("close", "quantifier") in pairwise(kinds):
        return False
    if "start" in kinds[1:] or "end" in kinds[:-1]:
        return False
    followers = [*(token.text for token in tokens[1:]), ""]
    return not any(map(_is_reversed, followers)) and any(
        kind in {"atom", "bracket"} and not _may_be_left_out(follower)
        for kind, follower in zip(kinds, followers, strict=True)
    )


def _may_be_left_out(quantifier: str) -> bool:
    return quantifier[:1] in {"*", "?"} or re.match(r"\{0+[,}]", quantifier) is not None


def _is_reversed(quantifier: str) -> bool:
    found = re.fullmatch(r"\{([0-9]+),([0-9]+)\}", quantifier)
    return found is not None and int(found[1]) > int(found[2])


def _in_java(token: Token) -> str:
    if token.kind == "open":
        return "(?:"
    if token.kind == "end":
        return r"\z"
    if token.kind == "bracket":
        return token.text.replace(r"\s", SPACES).replace(r"\d", "0-9")
    return _CLASSES.get(token.text, token.text)
