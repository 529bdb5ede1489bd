r"""Functions that cut, count and replace what a regular expression matches (regexp.c).

Patterns, replacements and flags are constants, and such that Java matches with the same characters
(see `extent`).
"""

import re
from typing import Final

from rewrite.dialect import builders as b
from rewrite.dialect.calls import Call, Handler, strict
from rewrite.dialect.regular_expressions import Extent, extent, require_collation
from rewrite.values import Value

_REFERENCE: Final = re.compile(
    r"(?s)\\(?P<group>[1-9])|\\(?P<whole>&)|\\(?P<escaped>\\)|(?P<plain>.)"
)

_MOST_GROUPS: Final = 6
"""Of a pattern: with the three around it there are nine, so that a digit after the number of one is
none of it."""


def _found(call: Call, *, flags: str = "") -> Extent:
    pattern = call.text_constant(1)
    require_collation(pattern, call.collation)
    found = extent(pattern, fold="i" in flags)
    if found.groups > _MOST_GROUPS or ("i" in flags and not pattern.isascii()):
        raise call.refuse(f"with the pattern {pattern!r}")
    return found


def _compiled(java: str, flags: str = "") -> b.Tree:
    return b.string(("(?is)" if "i" in flags else "(?s)") + java)


def _flags(call: Call, index: int, allowed: str) -> str:
    if index >= len(call.args):
        return ""
    flags = call.text_constant(index)
    if not set(flags) <= set(allowed):
        raise call.refuse(f"with flags {flags!r}")
    return flags


def java_replacement(replacement: str, groups: int, *, shift: int = 0) -> str | None:
    r"""Return what Java puts in the place of a match where PostgreSQL puts this.

    Args:
        replacement: As in ``regexp_replace``: ``\1`` to ``\9``, ``\&``, ``\\``.
        groups: How many groups the pattern has; None is returned where it names others.
        shift: Groups before those of the pattern, of which the last one is all of the match.

    >>> java_replacement(r"$\1-\&\\\x", 1)
    '\\$$1-$0\\\\\\\\x'
    """
    parts = []
    for found in _REFERENCE.finditer(replacement):
        if found["group"]:
            number = int(found["group"])
            if number > groups:
                return None
            parts.append(f"${number + shift}")
        elif found["whole"]:
            parts.append(f"${shift}")
        else:
            character = found["escaped"] or found["plain"]
            parts.append("\\" + character if character in "\\$" else character)
    return "".join(parts)


def _replace(call: Call) -> Value:
    flags = _flags(call, 3, "gi")
    found = _found(call, flags=flags)
    is_once = "g" not in flags and not found.begins
    # The first match alone is replaced by taking all of the text for one match.
    java = rf"^(.*?)({found.pattern})(.*)\z" if is_once else found.pattern
    replacement = java_replacement(call.text_constant(2), found.groups, shift=2 if is_once else 0)
    if replacement is None:
        raise call.refuse("with a reference to no group of the pattern")
    if is_once:
        replacement = f"$1{replacement}${found.groups + 3}"
    tree = b.call("regexp_replace", call.trees[0], _compiled(java, flags), b.string(replacement))
    return call.result(tree)


def _substring(call: Call) -> Value:
    """Map ``substring(text FROM pattern)``: the first group, where there is one."""
    found = _found(call)
    if not found.groups:
        return call.result(b.call("regexp_substr", call.trees[0], _compiled(found.pattern)))
    return call.result(
        b.let([call.trees[0]], lambda text: b.case(_matched(text, found, b.integer(1))))
    )


def _matched(text: b.Tree, found: Extent, group: b.Tree) -> tuple[b.Tree, b.Tree]:
    pattern = _compiled(found.pattern)
    return b.call("rlike", text, pattern), b.call("regexp_extract", text, pattern, group)


def _substr(call: Call) -> Value:
    found = _found(call)
    return call.result(b.call("regexp_substr", call.trees[0], _compiled(found.pattern)))


def _count(call: Call) -> Value:
    found = _found(call)
    return call.result(b.call("regexp_count", call.trees[0], _compiled(found.pattern)))


def _split(call: Call) -> Value:
    found = _found(call)
    pattern = _compiled(found.pattern)
    return call.result(b.call("split", call.trees[0], pattern, b.integer(-1)))


def _match(call: Call) -> Value:
    """Map ``regexp_match``: all groups, or what is matched where there is none."""
    found = _found(call)
    numbers = range(1, found.groups + 1) if found.groups else (0,)

    def groups(text: b.Tree) -> b.Tree:
        pairs = [_matched(text, found, b.integer(number)) for number in numbers]
        return b.case((pairs[0][0], b.call("array", *(cut for _, cut in pairs))))

    return call.result(b.let([call.trees[0]], groups))


FUNCTIONS: Final[dict[str, Handler]] = {
    "textregexreplace_noopt": strict(_replace),
    "textregexreplace": strict(_replace),
    "textregexsubstr": strict(_substring),
    "regexp_substr_no_start": strict(_substr),
    "regexp_count_no_start": strict(_count),
    "regexp_split_to_array_no_flags": strict(_split),
    "regexp_match_no_flags": strict(_match),
}
