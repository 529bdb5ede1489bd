"""Regular expressions that mean the same to PostgreSQL and to Java.

PostgreSQL takes the longest of the matches that begin first, Java the first that it comes to.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from rewrite.dialect import oids
from rewrite.errors import UnsupportedError

_SPACES: Final = r"\t-\r\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
"""What is white space to Unicode, and so to PostgreSQL's C.UTF-8."""

_CLASSES: Final = {
    r"\s": f"[{_SPACES}]",
    r"\S": f"[^{_SPACES}]",
    r"\D": "[^0-9]",
}

_TOKEN: Final = re.compile(
    r"""(?P<open>\((?:\?:)?)
      | (?P<close>\))
      | (?P<bar>\|)
      | (?P<start>\^)
      | (?P<end>\$)
      | (?P<bracket>\[\^?(?:[A-Za-z0-9\ _,;:@\#%=<>/!.*+?(){}|$-]|\\[sd])+\])
      | (?P<quantifier>[*+?]|\{[0-9]{1,2}(?:,[0-9]{0,2})?\})
      | (?P<atom>\.|[A-Za-z0-9\ _,;:@\#%&=<>/!"'~`-]|[\u00a1-\ud7ff]
          |\\[.*+?()\[\]{}|^$\\/-]|\\[dDsS])""",
    re.VERBOSE,
)
_OPERANDS: Final = {"atom", "bracket", "quantifier", "close"}
_PRECEDING: Final[dict[str, set[str]]] = {
    "open": {"", "open", "bar", "start", *_OPERANDS},
    "close": {"end", *_OPERANDS},
    "bar": {"end", *_OPERANDS},
    "start": {"", "open", "bar"},
    "end": {"start", *_OPERANDS},
    "bracket": {"", "open", "bar", "start", *_OPERANDS},
    "quantifier": {"atom", "bracket", "close"},
    "atom": {"", "open", "bar", "start", *_OPERANDS},
}
"""Kind of token → kinds of the token before it; "" is the beginning of the pattern."""


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str


def java_pattern(pattern: str) -> str:
    r"""Return the Java pattern that matches what PostgreSQL's does; refuse all but plain ones.

    PostgreSQL's dot matches line ends, and its ``$`` only the end of the text.

    >>> java_pattern("^a.b$")
    '(?s)^a.b\\z'
    """
    return "(?s)" + "".join(map(_in_java, _tokens(pattern)))


@dataclass(frozen=True, slots=True)
class Extent:
    """A regular expression of which Java finds the same matches as PostgreSQL."""

    pattern: str
    """In Java's form, with its groups, and without flags."""
    groups: int
    begins: bool
    """Whether it matches at the beginning of a text alone."""


def extent(pattern: str) -> Extent:
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
    tokens = list(_tokens(pattern))
    kinds = [token.kind for token in tokens]
    if not (_is_choice(tokens) if "bar" in kinds else _is_sequence(tokens)):
        raise refusal
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


def _is_choice(tokens: list[_Token]) -> bool:
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


def _is_sequence(tokens: list[_Token]) -> bool:
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


def _in_java(token: _Token) -> str:
    if token.kind == "open":
        return "(?:"
    if token.kind == "end":
        return r"\z"
    if token.kind == "bracket":
        return token.text.replace(r"\s", _SPACES).replace(r"\d", "0-9")
    return _CLASSES.get(token.text, token.text)


def _tokens(pattern: str) -> Iterator[_Token]:
    refusal = UnsupportedError(f"regular expression {pattern!r} is not supported")
    position, depth, before = 0, 0, ""
    while position < len(pattern):
        found = _TOKEN.match(pattern, position)
        kind = found.lastgroup if found else None
        if found is None or kind is None or before not in _PRECEDING[kind]:
            raise refusal
        if kind == "bracket" and not _plain_bracket(found[0]):
            raise refusal
        depth += (kind == "open") - (kind == "close")
        if depth < 0:
            raise refusal
        yield _Token(kind, found[0])
        position, before = found.end(), kind
    if depth or before not in {"end", *_OPERANDS}:
        raise refusal


def _plain_bracket(token: str) -> bool:
    """Tell whether ranges go from letter to letter of one case, or from digit to digit."""
    body = token[1:-1].removeprefix("^")
    if re.search(r"\\[sd]-.|.-\\[sd]", body):
        return False
    body = re.sub(r"\\[sd]", "_", body)
    inner = body.strip("-") or body
    ranges = re.findall(r"(.)-(.)", inner)
    if inner.count("-") != len(ranges) and inner != "-":
        return False
    kinds = (str.islower, str.isupper, str.isdigit)
    return all(
        first <= last and any(kind(first) and kind(last) for kind in kinds)
        for first, last in ranges
    )
