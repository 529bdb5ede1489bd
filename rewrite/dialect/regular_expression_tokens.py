"""The tokens of regular expressions, of those that are taken for Spark.

What is read here means the same to PostgreSQL and to Java, but for a few tokens that have another
form in Java (see `regular_expressions`). All else is refused.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rewrite.errors import UnsupportedError

SPACES: Final = r"\t-\r\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
"""What is white space to Unicode, and so to PostgreSQL's C.UTF-8."""

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
class Token:
    """A piece of a regular expression that has a meaning of its own."""

    kind: str
    text: str


def tokens_of(pattern: str) -> Iterator[Token]:
    """Yield the tokens of a pattern; refuse what is none of them, or at another place."""
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
        yield Token(kind, found[0])
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
