"""Statements made of pieces of other ones, with the way back for positions of errors."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Passage:
    """Text, and where it comes from."""

    text: str
    source: int
    """Characters before it in the statement it is taken from."""
    is_copied: bool = True
    """Whether it is there as it is; else it stands for what is at that place."""


@dataclass(frozen=True, slots=True)
class Translation:
    """A statement for PostgreSQL in place of another one."""

    passages: tuple[Passage, ...]

    @property
    def text(self) -> str:
        """The statement."""
        return "".join(passage.text for passage in self.passages)

    def place(self, position: int) -> int:
        """Return the position in the other statement for one in this, both counted from 1.

        >>> copied = Passage("CREATE ", 10)
        >>> Translation((copied, Passage("text", 30, is_copied=False))).place(9)
        31
        """
        left = position - 1
        for passage in self.passages:
            if left < len(passage.text):
                return passage.source + (left if passage.is_copied else 0) + 1
            left -= len(passage.text)
        last = self.passages[-1]
        return last.source + (len(last.text) if last.is_copied else 0) + 1


def translation(passages: Iterable[Passage]) -> Translation:
    """Return a statement of passages, without empty ones."""
    return Translation(tuple(passage for passage in passages if passage.text))
