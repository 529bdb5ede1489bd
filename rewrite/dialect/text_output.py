"""Output functions of types: PostgreSQL's text of values, where it is exact."""

from collections.abc import Callable
from typing import Final

from sqlglot import exp

from catalog.pg import sqlstate
from rewrite.context import SessionConstants
from rewrite.dialect import builders as b
from rewrite.dialect import oids
from rewrite.dialect.numerics import as_text
from rewrite.dialect.time_zones import local_time, micros_of_timestamp, session_zone
from rewrite.errors import UnsupportedError
from rewrite.values import Value

_FIRST_DATE: Final = b.cast(b.string("0001-01-01"), "DATE")
_LAST_DATE: Final = b.cast(b.string("9999-12-31"), "DATE")
_FIRST_TIMESTAMP: Final = b.cast(b.string("0001-01-01 00:00:00"), "TIMESTAMP_NTZ")
_LAST_TIMESTAMP: Final = b.cast(b.string("9999-12-31 23:59:59.999999"), "TIMESTAMP_NTZ")

_UNUSUAL_YEAR: Final = b.raise_error(
    sqlstate.FEATURE_NOT_SUPPORTED,
    "text of dates before year 1 or after year 9999 is not supported",
)


def _plain(value: Value, _constants: SessionConstants) -> b.Tree:
    return value.sql


def _cast(value: Value, _constants: SessionConstants) -> b.Tree:
    return b.cast(value.sql, "STRING")


def _numeric(value: Value, _constants: SessionConstants) -> b.Tree:
    return as_text(value)


def _boolean(value: Value, _constants: SessionConstants) -> b.Tree:
    return b.let(
        [value.sql],
        lambda x: b.case(
            (x, b.string("t")), (b.negation(x), b.string("f")), otherwise=b.null_of("STRING")
        ),
    )


def _require_iso(constants: SessionConstants) -> None:
    if not constants.date_style.upper().startswith("ISO"):
        raise UnsupportedError(
            f'dates as text with DateStyle "{constants.date_style}" are not supported'
        )


def _date(value: Value, constants: SessionConstants) -> b.Tree:
    _require_iso(constants)

    def body(day: b.Tree) -> b.Tree:
        unusual = b.either(b.infix(exp.LT, day, _FIRST_DATE), b.infix(exp.GT, day, _LAST_DATE))
        return b.checked(b.cast(day, "STRING"), (unusual, _UNUSUAL_YEAR))

    return b.let([value.sql], body)


def _timestamp_text(timestamp: b.Tree) -> b.Tree:
    def body(moment: b.Tree) -> b.Tree:
        unusual = b.either(
            b.infix(exp.LT, moment, _FIRST_TIMESTAMP), b.infix(exp.GT, moment, _LAST_TIMESTAMP)
        )
        return b.checked(b.cast(moment, "STRING"), (unusual, _UNUSUAL_YEAR))

    return b.let([timestamp], body)


def _timestamp(value: Value, constants: SessionConstants) -> b.Tree:
    _require_iso(constants)
    return _timestamp_text(value.sql)


def _timestamptz(value: Value, constants: SessionConstants) -> b.Tree:
    _require_iso(constants)
    zone = session_zone(constants)
    if zone.is_utc:
        return b.call("concat", _timestamp_text(local_time(value.sql, zone)), b.string("+00"))

    def body(local: b.Tree, micros: b.Tree) -> b.Tree:
        seconds = b.infix(
            exp.IntDiv, b.infix(exp.Sub, micros_of_timestamp(local), micros), b.bigint(1_000_000)
        )
        return b.call("concat", _timestamp_text(local), _offset_text(seconds))

    return b.let([local_time(value.sql, zone), b.call("unix_micros", value.sql)], body)


def _two_digits(number: b.Tree) -> b.Tree:
    return b.call("lpad", b.cast(number, "STRING"), b.integer(2), b.string("0"))


def _offset_text(seconds: b.Tree) -> b.Tree:
    """Return an offset from UTC as PostgreSQL prints it: hours, then minutes and seconds if any."""

    def body(offset: b.Tree) -> b.Tree:
        size = b.call("abs", offset)
        sixty = b.bigint(60)
        minutes = b.infix(exp.Mod, b.infix(exp.IntDiv, size, sixty), sixty)
        rest = b.infix(exp.Mod, size, sixty)
        colon = b.string(":")
        return b.call(
            "concat",
            b.case((b.infix(exp.LT, offset, b.integer(0)), b.string("-")), otherwise=b.string("+")),
            _two_digits(b.infix(exp.IntDiv, size, b.bigint(3600))),
            b.case(
                (
                    b.either(
                        b.infix(exp.GT, minutes, b.integer(0)), b.infix(exp.GT, rest, b.integer(0))
                    ),
                    b.call("concat", colon, _two_digits(minutes)),
                ),
                otherwise=b.string(""),
            ),
            b.case(
                (b.infix(exp.GT, rest, b.integer(0)), b.call("concat", colon, _two_digits(rest))),
                otherwise=b.string(""),
            ),
        )

    return b.let([seconds], body)


def clock_text(micros: b.Tree) -> b.Tree:
    """Return microseconds from midnight, not negative, as ``HH:MM:SS[.ffffff]``."""

    def body(time: b.Tree) -> b.Tree:
        second = b.bigint(1_000_000)
        fraction = b.infix(exp.Mod, time, second)
        digits = b.call("lpad", b.cast(fraction, "STRING"), b.integer(6), b.string("0"))
        trimmed = exp.Trim(this=digits, position="TRAILING", expression=b.string("0"))
        colon = b.string(":")
        sixty = b.bigint(60)
        hours = b.cast(b.infix(exp.IntDiv, time, b.bigint(3_600_000_000)), "STRING")
        return b.call(
            "concat",
            b.call(
                "lpad",
                hours,
                b.call("greatest", b.integer(2), b.call("length", hours)),
                b.string("0"),
            ),
            colon,
            _two_digits(b.infix(exp.Mod, b.infix(exp.IntDiv, time, b.bigint(60_000_000)), sixty)),
            colon,
            _two_digits(b.infix(exp.Mod, b.infix(exp.IntDiv, time, second), sixty)),
            b.case(
                (b.infix(exp.EQ, fraction, b.integer(0)), b.string("")),
                otherwise=b.call("concat", b.string("."), trimmed),
            ),
        )

    return b.let([micros], body)


def _time(value: Value, _constants: SessionConstants) -> b.Tree:
    return clock_text(value.sql)


def _bytea(value: Value, constants: SessionConstants) -> b.Tree:
    if constants.bytea_output != "hex":
        raise UnsupportedError("bytea as text with bytea_output other than hex is not supported")
    return b.call("concat", b.string("\\x"), b.call("lower", b.call("hex", value.sql)))


_OUTPUT: Final[dict[int, Callable[[Value, SessionConstants], b.Tree]]] = {
    **dict.fromkeys((oids.TEXT, oids.VARCHAR, oids.BPCHAR, oids.NAME, oids.CHAR), _plain),
    **dict.fromkeys((oids.UUID, oids.JSON, oids.JSONB, oids.UNKNOWN), _plain),
    **dict.fromkeys((oids.INT2, oids.INT4, oids.INT8, oids.OID), _cast),
    oids.NUMERIC: _numeric,
    oids.BOOL: _boolean,
    oids.DATE: _date,
    oids.TIMESTAMP: _timestamp,
    oids.TIMESTAMPTZ: _timestamptz,
    oids.TIME: _time,
    oids.BYTEA: _bytea,
}


def output_text(value: Value, constants: SessionConstants) -> b.Tree:
    """Return what the type's output function prints."""
    output = _OUTPUT.get(value.type_oid)
    if output is None:
        raise UnsupportedError(f"{oids.type_name(value.type_oid)} as text is not supported")
    return output(value, constants)
