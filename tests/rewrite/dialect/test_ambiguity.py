"""Regular expressions that Java may take for ever for are refused, and those in use are not."""

import time

import pytest

from rewrite.dialect.regular_expressions import extent, java_pattern
from rewrite.errors import UnsupportedError

USUAL = (
    r"^(\d{1,3}\.){3}\d{1,3}$",
    r"^((25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\.){3}(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)$",
    r"^[a-z0-9._%+-]+@[a-z0-9.-]+\.[a-z]{2,}$",
    r"^[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,63}$",
    r"^[^@]+@[^@]+\.[^@]+$",
    r"^([a-z]+\s)*[a-z]+$",
    r"^(\d+\.)+\d+$",
    "(foo|bar)+",
    "^(foo|bar)+$",
    "^([a-z]+,)*[a-z]+$",
    r"^\d{4}-\d{2}-\d{2}$",
    r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:?\d{2})?$",
    r"^(0?[1-9]|1[0-2]):[0-5]\d(:[0-5]\d)? ?(am|pm|AM|PM)$",
    "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
    "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$",
    r"^https?://[a-z0-9.-]+(:\d+)?(/[a-z0-9._%/-]*)?(\?[^#]*)?(#.*)?$",
    r"^(https?|ftp)://[^\s/$.?#].[^\s]*$",
    r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$",
    r"^[A-Z]{2}\d{2}( ?[A-Z0-9]{4}){2,7}( ?[A-Z0-9]{1,3})?$",
    r"^\+?\d{1,3}[ -]?\(?\d{3}\)?[ -]?\d{3}[ -]?\d{4}$",
    r"^\$?\d{1,3}(,\d{3})*(\.\d{2})?$",
    r"^-?\d+(\.\d+)?([eE][+-]?\d+)?$",
    "^([0-9A-F]{2}:){5}[0-9A-F]{2}$",
    "^#?([a-f0-9]{6}|[a-f0-9]{3})$",
    "^[a-z0-9]+(-[a-z0-9]+)*$",
    r"^v?\d+\.\d+\.\d+(-[a-z0-9]+(\.[a-z0-9]+)*)?$",
    r"^/?([^/]+/)*[^/]+\.(jpg|jpeg|png|gif)$",
    "^(M{0,3})(CM|CD|D?C{0,3})(XC|XL|L?X{0,3})(IX|IV|V?I{0,3})$",
    "^[A-Z][a-z]+( [A-Z][a-z]+)+$",
    "error|warning|fatal",
    "error.*timeout.*retry",
    ".*error.*timeout.*",
    "^.*a.*b.*c.*d$",
    "a.+b.*[^c].+d.*e.*f.*g",
    "^(?:.*(?:plain|quote).*)$",
    r"^\s+|\s+$",
    r"^\s*[A-Za-z_]+\s*=\s*.*$",
    "<[a-z]+[^>]*>",
    "^.{5,80}$",
    "^(1|b)*$",
    "a*a*a*b",
    "(a|b)*A",
    "(a+)+",  # it is found where the first a is
    "(a{3,2})*b",
)

ENDLESS = (
    "(a|aa){1,40}b",
    "(a{1,2}){1,40}b",
    "((a|aa)+b)+c",
    "(a+)+b",
    "(a*)*b",
    "(a|a)*b",
    "(a|aa)+$",
    "(a|b|ab)*c",
    r"(.|\s)*x",
    "^([a-z]+)*$",
    "([a-z]+ ?)+[0-9]",
    "^(([a-z])+.)+[A-Z]([a-z])+$",
    r"(\d+|[0-9a-f]+)*z",
    "(x+x+)+y",
    r"^(\d{1,3},?)+$",
    "((ab)*|(abab)*)*c",
    "((a?|b?)c)*d",
    "(((a*)?c)*d)*e",
    "((a|aa){7}){7}b",
    "(a{1,9}){9}b",
    "(a?){0,99}b",
    "(a|aa)" * 30 + "b",
    "a?" * 30 + "b",
    "(a|aa)" * 400 + "b",
    "a*a*a*a*b",
    "a{0,99}a{0,99}a{0,99}a{0,99}a{0,99}b",
    "^.*a.*b.*c.*d*$",
    "(ä|[^b])*c",
)


@pytest.mark.parametrize("pattern", USUAL)
def test_patterns_in_use_are_taken(pattern: str) -> None:
    assert java_pattern(pattern)


@pytest.mark.parametrize("pattern", ENDLESS)
def test_patterns_that_match_in_very_many_ways_are_refused(pattern: str) -> None:
    with pytest.raises(UnsupportedError, match="too many ways"):
        java_pattern(pattern)


def test_letters_of_two_cases_are_one_where_case_is_ignored() -> None:
    assert java_pattern("(a|A)*b")
    with pytest.raises(UnsupportedError, match="too many ways"):
        java_pattern("(a|A)*b", fold=True)


def test_cutting_and_replacing_have_the_same_limit() -> None:
    assert extent("a*a*a*b")
    assert extent("[a-z]*[A-Z]*[a-z]*[A-Z]*b")
    for pattern, fold in (("a*a*a*a*b", False), ("[a-z]*[A-Z]*[a-z]*[A-Z]*b", True)):
        with pytest.raises(UnsupportedError, match="too many ways"):
            extent(pattern, fold=fold)


def test_long_choices_are_taken_as_they_are() -> None:
    words = "|".join(f"word{number}" for number in range(1000))
    assert java_pattern(words)
    assert java_pattern(f"^({words})$")
    with pytest.raises(UnsupportedError, match="too many ways"):
        java_pattern(f"^({words})*$")


@pytest.mark.parametrize(
    "pattern",
    ["(a?){0,99}" * 9 + "b", "(a?b?){0,99}b", "[ab]{0,99}" * 9 + "c", "(" * 999 + "a" + ")" * 999],
)
def test_no_pattern_takes_long_to_tell(pattern: str) -> None:
    start = time.process_time()
    with pytest.raises(UnsupportedError, match="too many ways"):
        java_pattern(pattern)
    assert time.process_time() - start < 5
