"""LIKE patterns and the regular expressions that mean the same to PostgreSQL and to Java."""

import re
from typing import Final

from sqlglot import exp

from rewrite.dialect import builders as b
from rewrite.dialect import oids
from rewrite.dialect.calls import Call, Handler, known_text
from rewrite.dialect.letter_case import lowered
from rewrite.errors import UnsupportedError
from rewrite.values import Constant, Value


def spark_like_pattern(pattern: str) -> str:
    """Return a LIKE pattern with a backslash only before ``%``, ``_`` and itself, which is all Spark takes.

    >>> spark_like_pattern(r"a\\bc\\%")
    'abc\\\\%'
    """
    result = []
    characters = iter(pattern)
    for character in characters:
        if character != "\\":
            result.append(character)
            continue
        escaped = next(characters, None)
        if escaped is None:
            raise UnsupportedError("LIKE patterns that end with the escape character are not supported")
        result.append("\\" + escaped if escaped in "%_\\" else escaped)
    return "".join(result)


def _pattern(value: Value) -> b.Tree:
    known = known_text(value)
    if known is not None:
        return b.string(spark_like_pattern(known))
    # The first group keeps what Spark wants escaped, the second drops the backslash before the rest.
    return b.call("regexp_replace", value.sql, b.string(r"(?s)(\\[%_\\])|\\(.)"), b.string("$1$2"))


def _like(*, fold: bool, negate: bool) -> Handler:
    def handle(call: Call) -> Value:
        text, pattern = call.args
        subject = text.sql
        matched = _pattern(pattern)
        if fold:
            subject = lowered(subject, call.collation)
            known = known_text(pattern)
            if known is not None and known.isascii():
                matched = b.string(spark_like_pattern(known.lower()))
            else:
                # Letters after a backslash must not turn into other escapes: lower case has none.
                matched = lowered(matched, call.collation)
        like: b.Tree = exp.Like(this=b.group(subject), expression=b.group(matched))
        return call.result(b.negation(like) if negate else like)

    return handle


def _like_escape(call: Call) -> Value:
    """Map ``LIKE … ESCAPE``: the pattern with backslash as its escape character (like_match.c)."""
    pattern, escape = call.text_constant(0), call.text_constant(1)
    if len(escape) > 1:
        raise call.refuse("with an escape string of more than one character")
    result = pattern
    if not escape:
        result = pattern.replace("\\", "\\\\")
    elif escape != "\\":
        pieces = []
        after_escape = False
        for character in pattern:
            if character == escape and not after_escape:
                pieces.append("\\")
                after_escape = True
                continue
            pieces.append("\\\\" if character == "\\" and not after_escape else character)
            after_escape = False
        result = "".join(pieces)
    return Value(b.string(result), oids.TEXT, constant=Constant(result))


_BRACKET: Final = re.compile(r"\[\^?[A-Za-z0-9 _,;:@#%=<>/!.*+?(){}|$-]+\]")
_QUANTIFIER: Final = re.compile(r"[*+?]|\{[0-9]{1,3}(,[0-9]{0,3})?\}")
_LITERAL: Final = re.compile(r"[A-Za-z0-9 _,;:@#%&=<>/!\"'~`-]|[\u00a1-\ud7ff]|\\[.*+?()\[\]{}|^$\\/-]|\\d")
_RANGE: Final = re.compile(r"(.)-(.)")


def java_pattern(pattern: str) -> str:
    """Return a Java pattern that finds a match exactly where PostgreSQL's does; refuse all but plain ones.

    >>> java_pattern("^a.b$")
    '(?s)^a.b\\\\z'
    """
    result: list[str] = ["(?s)"]
    position, depth, can_repeat, at_start = 0, 0, False, True
    refusal = UnsupportedError(f"regular expression {pattern!r} is not supported")
    while position < len(pattern):
        rest = pattern[position:]
        character = rest[0]
        if character == "(":
            token, depth = ("(?:" if not rest.startswith("(?:") else "(?:"), depth + 1
            position += 3 if rest.startswith("(?:") else 1
            if rest.startswith("(?") and not rest.startswith("(?:"):
                raise refusal
            result.append(token)
            can_repeat, at_start = False, True
            continue
        if character == ")":
            depth -= 1
            if depth < 0 or at_start:
                raise refusal
            token, can_repeat = ")", True
        elif character == "|":
            if at_start:
                raise refusal
            result.append("|")
            position += 1
            can_repeat, at_start = False, True
            continue
        elif character == "^" and at_start:
            token, can_repeat = "^", False
        elif character == "$" and (len(rest) == 1 or rest[1] in ")|"):
            token, can_repeat = r"\z", False
        elif character == ".":
            token, can_repeat = ".", True
        elif found := _BRACKET.match(rest):
            token, can_repeat = found[0], True
            if not _plain_bracket(token):
                raise refusal
        elif found := _QUANTIFIER.match(rest):
            token = found[0]
            if not can_repeat:
                raise refusal
            can_repeat = False
        elif found := _LITERAL.match(rest):
            token, can_repeat = found[0], True
        else:
            raise refusal
        result.append(token)
        position += len("$") if token == r"\z" else len(token)
        at_start = False
    if depth or at_start:
        raise refusal
    return "".join(result)


def _plain_bracket(token: str) -> bool:
    """Tell whether ranges are between two letters of one case or two digits, and nothing else is special."""
    body = token[1:-1].removeprefix("^")
    if "&&" in body or ("-" in body[1:-1] and not _RANGE.search(body)):
        return False
    inner = body.strip("-") if body.strip("-") else body
    for found in re.finditer(r"(.)-(.)", inner):
        first, last = found[1], found[2]
        kinds = [str.islower, str.isupper, str.isdigit]
        if first > last or not any(kind(first) and kind(last) for kind in kinds):
            return False
    return True


def _matches(*, fold: bool, negate: bool) -> Handler:
    def handle(call: Call) -> Value:
        known = known_text(call.args[1])
        if known is None:
            raise UnsupportedError("regular expressions that are not constants are not supported")
        pattern = java_pattern(known)
        if fold:
            if not known.isascii():
                raise UnsupportedError("regular expressions beyond ASCII ignoring case are not supported")
            pattern = "(?i)" + pattern
        match = b.call("rlike", call.trees[0], b.string(pattern))
        return call.result(b.negation(match) if negate else match)

    return handle


FUNCTIONS: Final[dict[str, Handler]] = {
    "textlike": _like(fold=False, negate=False),
    "textnlike": _like(fold=False, negate=True),
    "namelike": _like(fold=False, negate=False),
    "namenlike": _like(fold=False, negate=True),
    "texticlike": _like(fold=True, negate=False),
    "texticnlike": _like(fold=True, negate=True),
    "like_escape": _like_escape,
    "textregexeq": _matches(fold=False, negate=False),
    "textregexne": _matches(fold=False, negate=True),
    "texticregexeq": _matches(fold=True, negate=False),
    "texticregexne": _matches(fold=True, negate=True),
    "nameregexeq": _matches(fold=False, negate=False),
    "nameregexne": _matches(fold=False, negate=True),
}
