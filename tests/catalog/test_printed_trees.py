"""Trees are what they were before PostgreSQL broke them into lines."""

from random import Random

import pytest

from catalog.connection.describe import unbroken

LINE = 78


def broken(dump: str) -> str:
    """Return what format_node_dump() makes of a tree (src/backend/nodes/print.c)."""
    lines = []
    while len(dump) > LINE:
        end = following = LINE
        if dump[LINE] == " ":
            following = LINE + 1
        elif (blank := dump.rfind(" ", 1, LINE)) > 0:
            end, following = blank, blank + 1
        lines.append(dump[:end])
        dump = dump[following:]
    return "\n".join([*lines, dump])


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
]


@pytest.mark.parametrize("seed", range(50))
def test_lines_are_put_together_as_they_were(seed: int) -> None:
    chance = Random(seed)  # noqa: S311 - the same each time
    dump = " ".join(chance.choices(WORDS, k=200))
    assert unbroken(broken(dump)) == dump


@pytest.mark.parametrize("length", range(1, LINE))
def test_a_name_is_broken_at_its_blanks_wherever_it_stands(length: int) -> None:
    dump = f"{'x' * length} :ctename two\\ or\\ more\\ words :ctelevelsup 0"
    assert unbroken(broken(dump)) == dump
