"""Regular expressions of the texts that PostgreSQL prints of jsonb values, and of their parts.

Such a text is one for each value: keys in order, no spaces but after commas and colons. The
patterns never try in two ways, so what they cost is the length of the text. What is nested in too
many levels no pattern matches: a search of it ends without a match, not with another part.
"""

import re
from typing import Final

MOST_LEVELS: Final = 10
"""How deep values may be nested that are returned, or passed on the way to what is."""

_STRING: Final = r'"(?:[^"\\]++|\\.)*+"'
_MORE: Final = "(?:, )?+"


def _nested(levels: int) -> str:
    """Return the pattern of an object or array."""
    inner = f"|{_nested(levels - 1)}" if levels > 1 else ""
    return rf'[{{\[](?:[^"{{}}\[\]]++|{_STRING}{inner})*+[}}\]]'


_VALUE: Final = rf'(?:{_STRING}|[^"{{}}\[\],]++|{_nested(MOST_LEVELS)})'

ARRAY: Final = rf"\A\[(?:{_VALUE}{_MORE})*+\]\z"
"""A whole array."""
OBJECT: Final = rf"\A\{{(?:{_STRING}: {_VALUE}{_MORE})*+\}}\z"
"""A whole object."""
ELEMENTS: Final = rf"\G(?:\A\[|, )({_VALUE})"
"""One element of an array after the other, as the first group."""
KEYS: Final = rf"\G(?:\A\{{|, )({_STRING}): {_VALUE}"
"""One key of an object after the other, as it is written."""
ITEMS: Final = rf"\G(?:\A\{{|, ){_STRING}: ({_VALUE})"
"""The value of one key of an object after the other."""


def member(key: str) -> str:
    """Return a pattern whose first group is the value of a key of an object, or the end of it.

    Args:
        key: As it is written, with its quotation marks.
    """
    name = re.escape(key)
    others = rf"(?:(?!{name}: ){_STRING}: {_VALUE}{_MORE})*+"
    return rf"\A\{{{others}(?:{name}: |(?=\}}))({_VALUE}|\}})"


def element(index: int) -> str:
    """Return a pattern whose first group is an element of an array, from 0, or the end of it."""
    before = rf"(?:{_VALUE}{_MORE}){{0,{index}}}+" if index else ""
    return rf"\A\[{before}({_VALUE}|\])"


def equal_element(pattern: str) -> str:
    """Return a pattern whose first group is the first element that matches, or the array's end."""
    end = r"(?=, |\])"
    others = rf"(?:(?!{pattern}{end}){_VALUE}{_MORE})*+"
    return rf"\A\[{others}({pattern}{end}|\])"
