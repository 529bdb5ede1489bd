"""Trees are what they were before PostgreSQL broke them into lines."""

from random import Random

import pytest

from catalog.connection.describe import unbroken

LINE = 78


def broken(dump: str) -> str:
    """Return what format_node_dump() makes of a tree (src/backend/nodes/print.c)."""
    left, lines = dump.encode(), []
    while len(left) > LINE:
        end = following = LINE
        if left[LINE : LINE + 1] == b" ":
            following = LINE + 1
        elif (blank := left.rfind(b" ", 1, LINE)) > 0:
            end, following = blank, blank + 1
        lines.append(left[:end])
        left = left[following:]
    return b"".join(line + b"\n" for line in [*lines, left]).decode("utf-8", "surrogateescape")


WORDS = [
    ":resname",
    "<>",
    "{VAR",
    ":varno",
    "1}",
    "two\\ words",
    "a\\ rather\\ long\\ name\\ of\\ many\\ words",
    "two\\\nlines",
    "back\\\\slash",
    "unbroken" * 11,
    "größere\\ Wörter",
    "two\\\nlängere\\ Zeilen",
    "表\\ の\\ 名前",
    "é" * 40,
    "x" + "é" * 60,
]


@pytest.mark.parametrize("seed", range(50))
def test_lines_are_put_together_as_they_were(seed: int) -> None:
    chance = Random(seed)  # noqa: S311 - the same each time
    dump = " ".join(chance.choices(WORDS, k=200))
    assert unbroken(broken(dump)) == f"{dump} "


@pytest.mark.parametrize("length", range(1, LINE))
@pytest.mark.parametrize(
    "name", ["two\\ or\\ more\\ words", "größere\\ Größen\\ für\\ öde\\ Ställe"]
)
def test_a_name_is_broken_at_its_blanks_wherever_it_stands(length: int, name: str) -> None:
    dump = f"{'x' * length} :ctename {name} :ctelevelsup 0"
    assert unbroken(broken(dump)) == f"{dump} "


@pytest.mark.parametrize("size", range(LINE - 2, LINE + 3))
@pytest.mark.parametrize("character", ["x", "é"])
def test_a_word_that_fills_a_line_ends_where_it_does(size: int, character: str) -> None:
    count, rest = divmod(size, len(character.encode()))
    word = character * count + "y" * rest
    dump = f'{{TARGETENTRY :resname {word} :colnames ({word[1:]} "b") :resjunk false}}'
    assert unbroken(broken(dump)) == f"{dump} "
