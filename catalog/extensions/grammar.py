"""What the grammars of our own statements are made of: tokens in order, and PostgreSQL's errors.

Tokens are those of PostgreSQL's scanner, so comments, quotes and letter case are read as there.
"""

import re
from collections.abc import Sequence
from typing import Final, NoReturn

from catalog.errors import GatewayError
from catalog.extensions.translation import Passage
from catalog.pg.sqlstate import SYNTAX_ERROR
from catalog.pg.statement_tokens import ScannedToken, tokens_of

_NAME: Final = re.compile(r"[^\W\d][\w$]*")
_UPPER_CASE: Final = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
"""PostgreSQL folds ASCII letters alone in databases of many bytes per character."""

_WORD: Final = re.compile(r"\w[\w.$-]*")

NESTED: Final = frozenset({"array", "map", "struct"})
"""Spark's types with other types in angle brackets."""

RelationPair = tuple[str | None, str]
"""Schema, if there is one, and name of a relation."""


class Tokens:
    """The tokens of one statement, taken one after the other."""

    def __init__(self, text: str) -> None:
        """Scan a statement; what cannot be scanned has no tokens."""
        self._encoded = text.encode("utf-8", "surrogateescape")
        self._tokens = tokens_of(self._encoded)
        self._next = 0

    @property
    def current(self) -> ScannedToken | None:
        """The next token; None at the end."""
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    @property
    def place(self) -> int:
        """Character of the statement, from 1, where the next token begins."""
        token = self.current
        start = len(self._encoded) if token is None else token.start
        return self.characters(start) + 1

    @property
    def rest(self) -> Sequence[ScannedToken]:
        """The tokens that have not been taken."""
        return self._tokens[self._next :]

    @property
    def taken_to(self) -> int:
        """Byte where the last token that was taken ends."""
        return self._tokens[self._next - 1].end if self._next else 0

    def passage(self, start: int, end: int) -> Passage:
        """Return what is between two bytes."""
        return Passage(self.text(start, end), self.characters(start))

    def remainder(self) -> Passage:
        """Take all tokens there still are; a syntax error for none.

        Returns what they say, comments at the end included.
        """
        start = self.advance().start
        self._next = len(self._tokens)
        return self.passage(start, len(self._encoded))

    def characters(self, offset: int) -> int:
        """Return how many characters there are before a byte."""
        return len(self._encoded[:offset].decode("utf-8", "surrogateescape"))

    def text(self, start: int, end: int) -> str:
        """Return the statement's text between two bytes."""
        return self._encoded[start:end].decode("utf-8", "surrogateescape")

    def advance(self) -> ScannedToken:
        """Take the next token; a syntax error at the end."""
        token = self.current
        if token is None:
            self.fail()
        self._next += 1
        return token

    def sees(self, *words: str) -> bool:
        """Tell whether words, or marks, come next in this order."""
        following = self._tokens[self._next : self._next + len(words)]
        return [token.text.lower() for token in following] == list(words)

    def accept(self, *words: str) -> bool:
        """Take words that come next; False where others do."""
        if not self.sees(*words):
            return False
        self._next += len(words)
        return True

    def expect(self, *words: str) -> None:
        """Take words that have to come next.

        Raises:
            GatewayError: 42601.
        """
        for word in words:
            if not self.accept(word):
                self.fail()

    def expect_end(self) -> None:
        """Raise 42601 unless all tokens have been taken."""
        if self.current is not None:
            self.fail()

    def name(self) -> str:
        """Take an identifier and return it as PostgreSQL reads it.

        Raises:
            GatewayError: 42601 for anything else, reserved words among them.
        """
        token = self.current
        value = None if token is None or token.is_reserved else identifier(token.text)
        if not value:
            self.fail()
        self._next += 1
        return value

    def relation(self) -> RelationPair:
        """Take the name of a relation, qualified or not."""
        first = self.name()
        return (first, self.name()) if self.accept(".") else (None, first)

    def string(self) -> str:
        """Take a string constant and return its value.

        Raises:
            GatewayError: 42601 for anything else, constants with escapes among them.
        """
        token = self.current
        if token is None or not is_string(token):
            self.fail()
        self._next += 1
        return token.text[1:-1].replace("''", "'")

    def string_text(self) -> str:
        """Take a string constant and return it as it is written."""
        token = self.current
        self.string()
        return "" if token is None else token.text

    def elements(self) -> list[list[ScannedToken]]:
        """Take parentheses and return the tokens of each element between them.

        Raises:
            GatewayError: 42601 for missing parentheses and empty elements.
        """
        self.expect("(")
        taken = []
        while not (self.sees(")") and self.rest[0].depth == 0):
            taken.append(self.advance())
        elements = parted(taken)
        if not all(elements) or not elements:
            self.fail()
        self.expect(")")
        return elements

    def option_name(self) -> str:
        """Take the name of an option: a string, or words parted by dots."""
        token = self.current
        if token is not None and is_string(token):
            return self.string()
        words = [self._option_word()]
        while self.accept("."):
            words.append(self._option_word())
        return ".".join(words)

    def option_value(self) -> str:
        """Take the value of an option: a string, a number or a word."""
        token = self.current
        if token is not None and is_string(token):
            return self.string()
        return self._option_word()

    def _option_word(self) -> str:
        token = self.current
        if token is None or not _WORD.fullmatch(token.text):
            self.fail()
        self._next += 1
        return token.text

    def names(self) -> tuple[str, ...]:
        """Take identifiers in parentheses, parted by commas."""
        self.expect("(")
        taken = [self.name()]
        while self.accept(","):
            taken.append(self.name())
        self.expect(")")
        return tuple(taken)

    def fail(self) -> NoReturn:
        """Raise PostgreSQL's syntax error at the next token (42601)."""
        token = self.current
        where = "end of input" if token is None else f'or near "{token.text}"'
        raise GatewayError(f"syntax error at {where}", sqlstate=SYNTAX_ERROR, position=self.place)


def parted(tokens: Sequence[ScannedToken]) -> list[list[ScannedToken]]:
    """Return the tokens of each element, parted by commas outside of ``<…>`` and parentheses."""
    if not tokens:
        return []
    outer = tokens[0].depth
    elements: list[list[ScannedToken]] = [[]]
    nesting = 0
    before = ""
    for token in tokens:
        if token.text == "<" and (before in NESTED or nesting):
            nesting += 1
        elif nesting and set(token.text) == {">"}:
            nesting = max(nesting - len(token.text), 0)
        if token.text == "," and token.depth == outer and not nesting:
            elements.append([])
        else:
            elements[-1].append(token)
        before = token.text.lower()
    return elements


def is_string(token: ScannedToken) -> bool:
    """Tell whether a token is a plain string constant."""
    return token.text[:1] == "'"


def identifier(text: str) -> str | None:
    """Return the name that a token's text stands for; None where it is no identifier.

    >>> identifier("Depts"), identifier('"My Depts"'), identifier("12")
    ('depts', 'My Depts', None)
    """
    if len(text) > 2 and text[0] == text[-1] == '"':
        return text[1:-1].replace('""', '"')
    return text.translate(_UPPER_CASE) if _NAME.fullmatch(text) else None
