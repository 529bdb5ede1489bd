"""``to_char`` of timestamps, for formats that are constants (formatting.c)."""

from collections.abc import Callable, Iterator
from typing import Final

from sqlglot import exp

from catalog.pg import sqlstate
from rewrite.dialect import builders as b
from rewrite.dialect import oids
from rewrite.dialect.calls import Call, Handler
from rewrite.dialect.literals import DAY
from rewrite.dialect.time_zones import local_time, micros_of_timestamp, session_zone
from rewrite.errors import UnsupportedError
from rewrite.values import Value

_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)
_DAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_NAME_WIDTH: Final = 9
"""Blanks fill names of months and days up to the longest."""

Piece = Callable[[b.Tree], b.Tree]
"""From a TIMESTAMP_NTZ to the text of one element of a format."""


def _padded(number: Piece, width: int) -> tuple[Piece, Piece]:
    """Return a number with leading zeros, and what FM makes of it."""

    def bare(moment: b.Tree) -> b.Tree:
        return b.cast(number(moment), "STRING")

    return lambda moment: b.call("lpad", bare(moment), b.integer(width), b.string("0")), bare


def _date(name: str) -> Piece:
    return lambda moment: b.call(name, b.cast(moment, "DATE"))


def _clock(divisor: int, modulus: int) -> Piece:
    def number(moment: b.Tree) -> b.Tree:
        micros = b.call("pmod", micros_of_timestamp(moment), b.bigint(DAY))
        return b.infix(exp.Mod, b.infix(exp.IntDiv, micros, b.bigint(divisor)), b.bigint(modulus))

    return number


def _fraction(divisor: int, digits: int) -> tuple[Piece, Piece]:
    """Return digits of the fraction of a second, of which FM takes none away."""
    padded, _ = _padded(_clock(divisor, 10**digits), digits)
    return padded, padded


_HOUR: Final = _clock(3_600_000_000, 24)


def _hour_of_half_day(moment: b.Tree) -> b.Tree:
    hour = b.infix(exp.Mod, _HOUR(moment), b.bigint(12))
    return b.case((b.infix(exp.EQ, hour, b.integer(0)), b.bigint(12)), otherwise=hour)


def _half_day(before: str, after: str) -> tuple[Piece, Piece]:
    def text(moment: b.Tree) -> b.Tree:
        morning = b.infix(exp.LT, _HOUR(moment), b.integer(12))
        return b.case((morning, b.string(before)), otherwise=b.string(after))

    return text, text


def _names(
    number: Piece, names: tuple[str, ...], change: Callable[[str], str], *, padded: bool
) -> tuple[Piece, Piece]:
    """Return names by a number from 1, maybe padded with blanks, and what FM makes of it."""

    def chosen(width: int) -> Piece:
        texts = [b.string(change(name).ljust(width)) for name in names]
        return lambda moment: b.call("element_at", b.array(*texts), number(moment))

    return chosen(_NAME_WIDTH if padded else 0), chosen(0)


def _forms(
    number: Piece, names: tuple[str, ...], word: str, *, padded: bool
) -> dict[str, tuple[Piece, Piece]]:
    """Return an element for names, which are written in the case of its own letters."""
    changes: dict[str, Callable[[str], str]] = {
        word.upper(): str.upper,
        word.capitalize(): str,
        word.lower(): str.lower,
    }
    return {form: _names(number, names, change, padded=padded) for form, change in changes.items()}


def _week_of(name: str) -> Piece:
    """Return weeks of seven days from the first day of the year or month."""

    def number(moment: b.Tree) -> b.Tree:
        day = b.infix(exp.Sub, _date(name)(moment), b.integer(1))
        return b.infix(exp.Add, b.infix(exp.IntDiv, day, b.integer(7)), b.integer(1))

    return number


def _year_part(digits: int) -> Piece:
    return lambda moment: b.infix(exp.Mod, _date("year")(moment), b.integer(10**digits))


def _iso_year(moment: b.Tree) -> b.Tree:
    return b.call("date_part", b.string("YEAROFWEEK"), b.cast(moment, "DATE"))


def _iso_day(moment: b.Tree) -> b.Tree:
    return b.infix(exp.Add, _date("weekday")(moment), b.integer(1))


def _same(pieces: dict[str, tuple[Piece, Piece]]) -> dict[str, tuple[Piece, Piece]]:
    """Let elements that have no letters of their own be written in lower case, too."""
    return {form: piece for name, piece in pieces.items() for form in (name, name.lower())}


_ELEMENTS: Final[dict[str, tuple[Piece, Piece]]] = {
    **_same(
        {
            "YYYY": _padded(_date("year"), 4),
            "YYY": _padded(_year_part(3), 3),
            "YY": _padded(_year_part(2), 2),
            "Y": _padded(_year_part(1), 1),
            "IYYY": _padded(_iso_year, 4),
            "Q": _padded(_date("quarter"), 1),
            "MM": _padded(_date("month"), 2),
            "WW": _padded(_week_of("dayofyear"), 2),
            "W": _padded(_week_of("day"), 1),
            "IW": _padded(_date("weekofyear"), 2),
            "DDD": _padded(_date("dayofyear"), 3),
            "DD": _padded(_date("day"), 2),
            "D": _padded(_date("dayofweek"), 1),
            "ID": _padded(_iso_day, 1),
            "HH24": _padded(_HOUR, 2),
            "HH12": _padded(_hour_of_half_day, 2),
            "HH": _padded(_hour_of_half_day, 2),
            "MI": _padded(_clock(60_000_000, 60), 2),
            "SS": _padded(_clock(1_000_000, 60), 2),
            "MS": _fraction(1_000, 3),
            "US": _fraction(1, 6),
        }
    ),
    "AM": _half_day("AM", "PM"),
    "PM": _half_day("AM", "PM"),
    "am": _half_day("am", "pm"),
    "pm": _half_day("am", "pm"),
    **_forms(_date("month"), _MONTHS, "MONTH", padded=True),
    **_forms(_date("month"), tuple(name[:3] for name in _MONTHS), "MON", padded=False),
    **_forms(_date("dayofweek"), _DAYS, "DAY", padded=True),
    **_forms(_date("dayofweek"), tuple(name[:3] for name in _DAYS), "DY", padded=False),
}

# Elements without a mapping: a format that holds one is refused.
_UNMAPPED: Final = tuple(
    form
    for word in (
        *(
            "A.D.",
            "A.M.",
            "AD",
            "B.C.",
            "BC",
            "CC",
            "FF1",
            "FF2",
            "FF3",
            "FF4",
            "FF5",
            "FF6",
            "FX",
            "IDDD",
        ),
        *(
            "IYY",
            "IY",
            "I",
            "J",
            "OF",
            "P.M.",
            "RM",
            "SSSSS",
            "SSSS",
            "TZH",
            "TZM",
            "TZ",
            "Y,YYY",
            "TM",
        ),
    )
    for form in (word, word.lower())
)
_BY_LENGTH: Final = sorted((*_ELEMENTS, *_UNMAPPED), key=len, reverse=True)
_SUFFIXES: Final = ("TH", "th", "SP", "sp")


def pieces(text: str) -> Iterator[Piece | str]:
    """Split a format into elements and literal text; refuses elements without a mapping.

    >>> [piece if isinstance(piece, str) else "element" for piece in pieces('YYYY-"Q"Q')]
    ['element', '-', 'Q', 'element']
    """
    position = 0
    while position < len(text):
        rest = text[position:]
        if rest[0] == '"' and '"' in rest[1:] and "\\" not in rest:
            end = rest.index('"', 1)
            yield rest[1:end]
            position += end + 1
            continue
        bare = rest.startswith(("FM", "fm"))
        name = next((n for n in _BY_LENGTH if rest[2 * bare :].startswith(n)), None)
        if name is None and not bare and rest[0] not in '\\"':
            yield rest[0]
            position += 1
            continue
        if name not in _ELEMENTS or rest[2 * bare + len(name) :].startswith(_SUFFIXES):
            raise UnsupportedError(f'to_char() with format "{text}" is not supported')
        yield _ELEMENTS[name][bare]
        position += 2 * bare + len(name)


def _to_char(call: Call) -> Value:
    value = call.args[0]
    elements = list(pieces(call.text_constant(1)))
    if not elements:
        raise call.refuse("with an empty format")

    def body(moment: b.Tree) -> b.Tree:
        year = _date("year")(moment)
        unusual = b.either(
            b.infix(exp.LT, year, b.integer(1)), b.infix(exp.GT, year, b.integer(9999))
        )
        unfit = b.raise_error(
            sqlstate.FEATURE_NOT_SUPPORTED,
            "to_char() of dates before year 1 or after year 9999 is not supported",
        )
        texts = [b.string(e) if isinstance(e, str) else e(moment) for e in elements]
        return b.checked(
            b.call("concat", *texts), (b.is_null(moment), b.null_of("STRING")), (unusual, unfit)
        )

    local = value.sql
    if value.type_oid == oids.TIMESTAMPTZ:
        local = local_time(value.sql, session_zone(call.constants))
    return call.result(b.let([local], body))


FUNCTIONS: Final[dict[str, Handler]] = {
    "timestamp_to_char": _to_char,
    "timestamptz_to_char": _to_char,
}
