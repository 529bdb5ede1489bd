"""Automata of regular expressions whose states are the characters that a pattern names.

A state has been entered when its character was read (Glushkov, "The abstract theory of automata",
1961). Counted repetitions are written out, so that a text may be read on as many paths as a search
that goes back has ways to try; where one state follows another in several ways, each is counted.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Final

from rewrite.dialect.regular_expression_tokens import SPACES, Token

START: Final = 0
"""The state before a text is read."""
_MOST_STATES: Final = 1000
_MOST_PAIRS: Final = 50_000
"""Of states that follow each other."""
_MOST_LEVELS: Final = 50
_MOST_WAYS: Final = 2
"""More ways from one state to another are as bad."""

_SPACES: Final = re.findall(f"[{SPACES}]", "".join(map(chr, range(0x3001))))
_DIGITS: Final = "0123456789"
_CLASSES: Final = {r"\s": _SPACES, r"\d": _DIGITS}
_OTHER: Final = "\U0010ffff"
"""Stands for all characters that no pattern names."""
_ITEM: Final = re.compile(r"(?P<named>\\[sd])|(?P<first>.)-(?P<last>.)|(?P<one>.)")

Ways = Counter[int]
"""State → in how many ways it is reached."""


class TooLargeError(Exception):
    """A pattern has more states, or deeper groups, than are looked at."""


@dataclass(slots=True)
class Automaton:
    """What reads the texts that a pattern matches."""

    letters: list[int] = field(default_factory=lambda: [0])
    """State → the characters that lead to it, as bits; none for ends of the text."""
    followers: list[Ways] = field(default_factory=lambda: [Counter()])
    accepting: set[int] = field(default_factory=set)
    every_letter: int = 0


def automaton(tokens: Sequence[Token], *, fold: bool = False) -> Automaton:
    """Return the automaton of a pattern.

    Args:
        tokens: Of the pattern.
        fold: Whether ASCII letters match those of the other case.

    Raises:
        TooLargeError: It would be too large to be looked at.
    """
    builder = _Builder(tokens, fold=fold)
    part = builder.choice(iter(_nested(tokens)))
    result = builder.automaton
    result.followers[START] += part.first
    result.accepting |= set(part.last) | ({START} if part.empty else set())
    return result


@dataclass(slots=True)
class _Part:
    """What a part of a pattern reads first and last."""

    first: Ways = field(default_factory=Counter)
    last: Ways = field(default_factory=Counter)
    empty: int = 1
    """In how many ways it reads nothing."""


@dataclass(slots=True)
class _Item:
    """A token or a group, and how often it is repeated."""

    operand: "Token | list[_Item]"
    quantifier: str = ""


_BAR: Final = Token("bar", "|")


def _nested(tokens: Iterable[Token]) -> list[_Item]:
    levels: list[list[_Item]] = [[]]
    for token in tokens:
        if token.kind == "open":
            levels.append([])
        elif token.kind == "close":
            group = levels.pop()
            levels[-1].append(_Item(group))
        elif token.kind == "quantifier":
            levels[-1][-1].quantifier = token.text
        elif token.kind != "start":  # it reads nothing
            levels[-1].append(_Item(token))
        if len(levels) > _MOST_LEVELS:
            raise TooLargeError
    return levels[0]


class _Builder:
    def __init__(self, tokens: Sequence[Token], *, fold: bool) -> None:
        named = "".join(token.text for token in tokens)
        self._alphabet = sorted({*map(chr, range(128)), *_SPACES, *named, _OTHER})
        self._fold = fold
        self._known: dict[str, int] = {}
        self._pairs = 0
        self.automaton = Automaton(every_letter=self._bits(set(self._alphabet)))

    def choice(self, items: Iterator[_Item]) -> _Part:
        parts, sequence = [], _Part()
        for item in items:
            if item.operand == _BAR:
                parts.append(sequence)
                sequence = _Part()
            else:
                sequence = self._joined(sequence, self._repeated(item))
        parts.append(sequence)
        return _Part(
            sum((part.first for part in parts), Counter()),
            sum((part.last for part in parts), Counter()),
            _capped(sum(part.empty for part in parts)),
        )

    def _repeated(self, item: _Item) -> _Part:
        least, most = _bounds(item.quantifier)
        result = _Part()
        for _ in range(least if most is not None else max(least - 1, 0)):
            result = self._joined(result, self._operand(item))
        if most is None:
            part = self._operand(item)
            self._follow(part.last, part.first)
            more = _Part(part.first, part.last, part.empty + 1 if least == 0 else part.empty)
            return self._joined(result, more)
        rest = _Part()
        for _ in range(most - least):  # from the last one on: each is there if the one before is
            rest = self._joined(self._operand(item), rest)
            rest.empty = _capped(rest.empty + 1)
        return self._joined(result, rest)

    def _operand(self, item: _Item) -> _Part:
        if isinstance(item.operand, list):
            return self.choice(iter(item.operand))
        state = len(self.automaton.letters)
        if state > _MOST_STATES:
            raise TooLargeError
        self.automaton.letters.append(self._letters(item.operand))
        self.automaton.followers.append(Counter())
        return _Part(Counter([state]), Counter([state]), 0)

    def _joined(self, one: _Part, other: _Part) -> _Part:
        self._follow(one.last, other.first)
        return _Part(
            one.first + _times(other.first, one.empty),
            other.last + _times(one.last, other.empty),
            _capped(one.empty * other.empty),
        )

    def _follow(self, last: Ways, first: Ways) -> None:
        self._pairs += len(last) * len(first)
        if self._pairs > _MOST_PAIRS:
            raise TooLargeError
        for (state, ways), (follower, more) in product(last.items(), first.items()):
            self.automaton.followers[state][follower] += ways * more

    def _letters(self, token: Token) -> int:
        if token.kind == "end":
            return 0
        if token.text not in self._known:
            self._known[token.text] = self._bits(self._characters(token))
        return self._known[token.text]

    def _characters(self, token: Token) -> set[str]:
        every = set(self._alphabet)
        if token.kind == "bracket":
            body = token.text[1:-1]
            among = _among(body.removeprefix("^"))
            result = every - among if body.startswith("^") else among
        elif token.text == ".":
            result = every
        elif token.text in {r"\S", r"\D"}:
            result = every - set(_CLASSES[token.text.lower()])
        else:
            result = set(_CLASSES.get(token.text, token.text[-1]))
        if self._fold:
            result |= {other.swapcase() for other in result if other.isascii()}
        return result

    def _bits(self, characters: set[str]) -> int:
        return sum(1 << place for place, one in enumerate(self._alphabet) if one in characters)


def _bounds(quantifier: str) -> tuple[int, int | None]:
    if not quantifier:
        return 1, 1
    known = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(quantifier)
    if known is not None:
        return known
    least, comma, most = quantifier[1:-1].partition(",")
    if not most:
        return int(least), None if comma else int(least)
    return int(least), max(int(least), int(most))


def _among(body: str) -> set[str]:
    """Return the characters of a set that is written like this."""
    result: set[str] = set()
    for item in _ITEM.finditer(body):
        if item["named"]:
            result |= set(_CLASSES[item["named"]])
        elif item["one"]:
            result.add(item["one"])
        else:
            result |= set(map(chr, range(ord(item["first"]), ord(item["last"]) + 1)))
    return result


def _capped(ways: int) -> int:
    return min(ways, _MOST_WAYS)


def _times(ways: Ways, number: int) -> Ways:
    return Counter({state: times * number for state, times in ways.items() if number})
