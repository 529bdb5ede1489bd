"""Upper and lower case: PostgreSQL's C.UTF-8 maps single characters, Spark whole strings."""

from typing import Final

from sqlglot import exp

from rewrite.dialect import builders as b
from rewrite.dialect import oids
from rewrite.dialect.letter_case_exceptions import LOWER_FROM, LOWER_TO, UPPER_FROM, UPPER_TO
from rewrite.errors import UnsupportedError

_ASCII_UPPER: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_ASCII_LOWER: Final = _ASCII_UPPER.lower()

_UPPER_EXCEPTIONS: Final = (UPPER_FROM, UPPER_TO)
_LOWER_EXCEPTIONS: Final = (LOWER_FROM, LOWER_TO)


def lowered(text: b.Tree, collation: int) -> b.Tree:
    """Return ``lower(text)``."""
    return _folded("lower", text, collation, _LOWER_EXCEPTIONS, (_ASCII_UPPER, _ASCII_LOWER))


def uppered(text: b.Tree, collation: int) -> b.Tree:
    """Return ``upper(text)``."""
    return _folded("upper", text, collation, _UPPER_EXCEPTIONS, (_ASCII_LOWER, _ASCII_UPPER))


def is_ascii(text: b.Tree) -> b.Tree:
    """Return whether a text has ASCII characters only."""
    return b.infix(exp.EQ, b.call("length", text), b.call("octet_length", text))


def _folded(
    function: str,
    text: b.Tree,
    collation: int,
    exceptions: tuple[str, str],
    ascii_letters: tuple[str, str],
) -> b.Tree:
    if collation in (950, 951):
        return b.call("translate", text, b.string(ascii_letters[0]), b.string(ascii_letters[1]))
    if collation not in (oids.DEFAULT_COLLATION, oids.PG_C_UTF8):
        raise UnsupportedError(f"{function}() with this collation is not supported")

    def one_character(name: str) -> b.Tree:
        character = b.variable(name)
        mapped = b.call("translate", character, b.string(exceptions[0]), b.string(exceptions[1]))
        special = b.infix(exp.GT, b.call("instr", b.string(exceptions[0]), character), b.integer(0))
        body = b.case((special, mapped), otherwise=b.call(function, character))
        return b.lambda_function(body, name)

    def fold(value: b.Tree) -> b.Tree:
        characters = b.call("split", value, b.string(""))
        mapped = b.fresh_variable(lambda name: b.call("transform", characters, one_character(name)))
        joined = b.call("array_join", mapped, b.string(""))
        return b.case((is_ascii(value), b.call(function, value)), otherwise=joined)

    return b.let([text], fold)
