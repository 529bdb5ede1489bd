"""What regular expressions match: PostgreSQL's longest match beside the first one of others.

Python's expressions find matches in the order in which Java's do.
"""

import random
import re

import pytest

from rewrite.dialect.regular_expressions import extent
from rewrite.errors import UnsupportedError
from tests.support.rewrite_oracle import database
from tests.support.servers import Address

pytestmark = pytest.mark.catalog

PATTERNS, TEXTS = 400, 60

ATOMS = ("a", "b", "c", ".", "[ab]", "[^a]", "[b-c]", r"\s", r"\d", r"[\d\s]", r"\.")

QUANTIFIERS = ("", "", "", "*", "+", "?", "{2}", "{0,2}", "{1,3}", "{2,}")


def pattern(chance: random.Random) -> str:
    """Return a pattern of which the extent may be supported."""
    if chance.random() < 0.2:
        lengths = [chance.randint(1, 3) for _ in range(chance.randint(2, 4))]
        return "|".join("".join(chance.choices("abc", k=length)) for length in lengths)
    items = [chance.choice(ATOMS) + chance.choice(QUANTIFIERS) for _ in range(chance.randint(1, 5))]
    if chance.random() < 0.5:
        first = chance.randrange(len(items))
        last = chance.randrange(first, len(items))
        items[first] = "(" + items[first]
        items[last] += ")"
    start, end = (chance.random() < 0.15 for _ in range(2))
    return "^" * start + "".join(items) + "$" * end


def supported(chance: random.Random) -> dict[str, re.Pattern[str]]:
    """Return patterns, and what Python makes of them in Java's form."""
    found: dict[str, re.Pattern[str]] = {}
    while len(found) < PATTERNS:
        text = pattern(chance)
        try:
            java = extent(text).pattern
        except UnsupportedError:
            continue
        found[text] = re.compile("(?s)" + java.replace(r"\z", r"\Z"))
    return found


@pytest.mark.parametrize("seed", [1, 2])
def test_first_matches_are_the_longest_ones(plain_postgres: Address, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - the same patterns in every run
    patterns = supported(chance)
    texts = ["".join(chance.choices("aabbc 1.\n", k=chance.randint(0, 9))) for _ in range(TEXTS)]
    query = (
        r"SELECT p, t, regexp_replace(t, p, '<\&|\1>', 'g'), regexp_match(t, p),"
        " regexp_split_to_array(t, p), regexp_count(t, p)"
        " FROM unnest(%s::text[]) p, unnest(%s::text[]) t"
    )
    compared = 0
    with database(plain_postgres.conninfo(), "regular_expressions") as connection:
        for text, subject, replaced, groups, parts, number in connection.execute(
            query, [list(patterns), texts]
        ):
            compiled = patterns[text]
            matches = list(compiled.finditer(subject))
            found = [f"<{match[0]}|{match[1] if compiled.groups else ''}>" for match in matches]
            places = [0, *(place for match in matches for place in match.span()), len(subject)]
            between = [
                subject[start:end] for start, end in zip(places[::2], places[1::2], strict=True)
            ]
            mixed = "".join(map("".join, zip(between, [*found, ""], strict=True)))
            assert (replaced, number) == (mixed, len(matches)), text
            assert parts == between, text
            first = matches[0] if matches else None
            assert groups == (first and list(first.groups() or [first[0]])), text
            compared += 1
    assert compared == PATTERNS * TEXTS


@pytest.mark.parametrize(
    "text",
    ["a*", "(a*)b?", "(ab)+c", "((a)b)", "(a|b)c", "a|ab", "a|b|a", "a.|b", "a{3,2}b", "(^a)b"],
)
def test_matches_that_others_might_find_differently_are_refused(text: str) -> None:
    with pytest.raises(UnsupportedError):
        extent(text)


def test_white_space_is_postgresqls(plain_postgres: Address) -> None:
    query = (
        "SELECT g FROM generate_series(1, 1114111) g WHERE g NOT BETWEEN 55296 AND 57343"
        r""" AND chr(g) COLLATE "pg_c_utf8" ~ '\s'"""
    )
    compiled = re.compile(extent(r"\s").pattern)
    with database(plain_postgres.conninfo(), "white_space") as connection:
        spaces = {row[0] for row in connection.execute(query)}
    assert spaces == {g for g in range(0x110000) if compiled.fullmatch(chr(g))}
