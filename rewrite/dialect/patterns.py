"""What matches a pattern: LIKE and regular expressions."""

import re
from dataclasses import replace
from typing import Final

from sqlglot import exp

from rewrite.dialect import builders as b
from rewrite.dialect import oids
from rewrite.dialect.calls import Call, Handler, known_text
from rewrite.dialect.letter_case import lowered
from rewrite.dialect.regular_expressions import java_pattern, require_collation
from rewrite.errors import UnsupportedError
from rewrite.values import Constant, Value


def spark_like_pattern(pattern: str) -> str:
    r"""Return a LIKE pattern with backslashes only before ``%``, ``_`` and themselves.

    That is all Spark takes.

    >>> spark_like_pattern(r"a\bc\%")
    'abc\\%'
    """
    result = []
    characters = iter(pattern)
    for character in characters:
        if character != "\\":
            result.append(character)
            continue
        escaped = next(characters, None)
        if escaped is None:
            raise UnsupportedError(
                "LIKE patterns that end with the escape character are not supported"
            )
        result.append("\\" + escaped if escaped in "%_\\" else escaped)
    return "".join(result)


_PART: Final = re.compile(r"(?s)\\(?P<escaped>.)|(?P<any>%+)|(?P<one>_)|(?P<plain>.)")


def unwound(pattern: str) -> str | None:
    r"""Return the Java pattern of a LIKE pattern that Spark would try in too many ways.

    Between two ``%`` the first place that fits is the best one, so none is ever tried again: a text
    costs its length, not a power of it. None for what Spark has better ways for.

    >>> unwound("a.%b_c%d%")
    '(?s)^a\\.(?>.*?b.c)(?>.*?d)'
    >>> unwound("%a%b")
    '(?s)^(?>.*?a).*b\\z'
    >>> unwound("%a%")
    >>> unwound("a")
    """
    pieces, runs = [""], 0
    for part in _PART.finditer(pattern):
        if part["any"]:
            pieces.append("")
            runs += 1
        else:
            pieces[-1] += "." if part["one"] else _quoted(part["escaped"] or part["plain"])
    if runs < 2 or sum(map(bool, pieces)) < 2:
        return None
    first, *inner, last = pieces
    groups = "".join(f"(?>.*?{piece})" for piece in inner)
    return f"(?s)^{first}{groups}" + (rf".*{last}\z" if last else "")


def _quoted(character: str) -> str:
    is_plain = character.isalnum() or not character.isascii()
    return character if is_plain else "\\" + character


_ESCAPE_AT_END: Final = b.raise_error("22025", "LIKE pattern must not end with escape character")


def _ends_with_escape(pattern: str) -> bool:
    return (len(pattern) - len(pattern.rstrip("\\"))) % 2 == 1


def _until_escape(value: Value) -> Value:
    """Return what matches a text as far as the escape character at the end of a pattern."""
    known = known_text(value)
    if known is None or not _ends_with_escape(known):
        return value
    reached = known[:-1] + "_%"
    return replace(value, sql=b.string(reached), constant=Constant(reached))


_REWRITINGS: Final = (
    # What stands for itself is quoted, so that the others are easily told.
    (r"(?s)\\(.)|([^%_0-9A-Za-z])", r"\\Q$1$2\\E"),
    (r"(?<!\\Q)_", "."),
    (r"(?<!\\Q)%++", ")(?>.*?"),
)
"""What makes a Java pattern of a LIKE pattern, one after the other, but for its ends."""


def _matches_unknown(subject: b.Tree, pattern: b.Tree) -> b.Tree:
    r"""Return whether a text matches a LIKE pattern that is known when the query runs.

    It is read like those of `unwound`: ``a%b_%c`` is ``(?s)\A(?>a)(?>.*?b.)(?>.*?c\z)``. 22025
    where an escape character at its end is reached.
    """

    def matches(pattern: b.Tree) -> b.Tree:
        length = b.call("length", pattern)
        rest = b.call("length", b.call("rtrim", b.string("\\"), pattern))
        escapes = b.infix(exp.Mod, b.infix(exp.Sub, length, rest), b.integer(2))
        ends_with_escape = b.infix(exp.EQ, escapes, b.integer(1))
        start = b.call("left", pattern, b.infix(exp.Sub, length, b.integer(1)))
        written = b.case(
            (ends_with_escape, b.call("concat", start, b.string("_%"))), otherwise=pattern
        )
        for found, replacement in _REWRITINGS:
            written = b.call("regexp_replace", written, b.string(found), b.string(replacement))
        java = b.call("concat", b.string(r"(?s)\A(?>"), written, b.string(r"\z)"))
        like = b.call("rlike", subject, java)
        # A text that does not match so far is not compared with the end.
        reaches_escape = b.both(ends_with_escape, b.is_not_null(subject))
        return b.both(like, b.case((reaches_escape, _ESCAPE_AT_END), otherwise=b.TRUE))

    return b.let([pattern], matches)


def _like(*, fold: bool, negate: bool) -> Handler:
    def handle(call: Call) -> Value:
        text, pattern = call.args[0], _until_escape(call.args[1])

        def folded(text: b.Tree) -> b.Tree:
            return lowered(text, call.collation) if fold else text

        def constant(text: str) -> b.Tree:
            return b.string(text.lower()) if fold and text.isascii() else folded(b.string(text))

        subject, known = folded(text.sql), known_text(pattern)
        if known is None:
            like = _matches_unknown(subject, folded(pattern.sql))
        elif (unwinding := unwound(known)) is not None:
            # All that it has beside the letters of the pattern is lower case.
            like = b.call("rlike", subject, constant(unwinding))
        else:
            # Letters after a backslash must not turn into other escapes: here there are none.
            matched = constant(spark_like_pattern(known))
            like = exp.Like(this=b.group(subject), expression=b.group(matched))
        if pattern is not call.args[1]:
            # A text that does not match so far is not compared with the end.
            like = b.case((like, _ESCAPE_AT_END), (b.is_not_null(subject), b.FALSE))
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


_REPETITION: Final = re.compile(r"(?<!\\)\{([0-9]+),([0-9]+)\}")
_INVALID_REPETITION: Final = b.raise_error(
    "2201B", "invalid regular expression: invalid repetition count(s)"
)


def _matches(*, fold: bool, negate: bool) -> Handler:
    def handle(call: Call) -> Value:
        known = known_text(call.args[1])
        if known is None:
            raise UnsupportedError("regular expressions that are not constants are not supported")
        pattern = java_pattern(known, fold=fold)
        require_collation(known, call.collation)
        if any(int(least) > int(most) for least, most in _REPETITION.findall(known)):
            return call.result(b.case((b.is_not_null(call.trees[0]), _INVALID_REPETITION)))
        if fold:
            if not known.isascii():
                raise UnsupportedError(
                    "regular expressions beyond ASCII ignoring case are not supported"
                )
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
    "regexp_like_no_flags": _matches(fold=False, negate=False),
    "textregexne": _matches(fold=False, negate=True),
    "texticregexeq": _matches(fold=True, negate=False),
    "texticregexne": _matches(fold=True, negate=True),
    "nameregexeq": _matches(fold=False, negate=False),
    "nameregexne": _matches(fold=False, negate=True),
}
