"""Input functions of types: values of PostgreSQL's text, in the forms that are mapped."""

from collections.abc import Callable
from typing import Final

from sqlglot import exp

from catalog.pg import sqlstate
from rewrite.dialect import builders as b
from rewrite.dialect import oids
from rewrite.dialect.numerics import WHOLE, floating
from rewrite.errors import UnsupportedError
from rewrite.values import Value

_SPACE: Final = r"[ \t\n\x0b\f\r]*"


def _invalid(type_oid: int, text: b.Tree) -> b.Tree:
    name = oids.type_name(type_oid)
    return b.raise_error(
        sqlstate.INVALID_TEXT_REPRESENTATION,
        b.call("concat", b.string(f'invalid input syntax for type {name}: "'), text, b.string('"')),
    )


def _unsupported_form(type_oid: int) -> b.Tree:
    return b.raise_error(
        sqlstate.FEATURE_NOT_SUPPORTED,
        f"this form of text as {oids.type_name(type_oid)} is not supported",
    )


def _matches(text: b.Tree, pattern: str) -> b.Tree:
    return b.call("rlike", text, b.string(pattern))


def _stripped(text: b.Tree) -> b.Tree:
    return exp.Trim(this=text, position="BOTH", expression=b.string(" \t\n\x0b\f\r"))


_INTEGER_INPUT: Final = {
    oids.INT2: ("SMALLINT", 2**15),
    oids.INT4: ("INT", 2**31),
    oids.INT8: ("BIGINT", 2**63),
}


_OTHER_INTEGER: Final = (
    rf"(?i)^{_SPACE}[+-]?(0x_?[0-9a-f][0-9a-f_]*|0o_?[0-7][0-7_]*|0b_?[01][01_]*"
    rf"|[0-9]+(_[0-9]+)+){_SPACE}\z"
)


def _to_integer(value: Value, type_oid: int) -> Value:
    spark_type, limit = _INTEGER_INPUT[type_oid]

    def body(text: b.Tree) -> b.Tree:
        wide = b.cast(_stripped(text), "DECIMAL(38, 0)")
        name = oids.type_name(type_oid)
        message = b.call(
            "concat", b.string('value "'), text, b.string(f'" is out of range for type {name}')
        )
        out_of_range = b.raise_error(sqlstate.NUMERIC_VALUE_OUT_OF_RANGE, message)
        low = b.cast(b.string(str(-limit)), "DECIMAL(38, 0)")
        high = b.cast(b.string(str(limit - 1)), "DECIMAL(38, 0)")
        decimal_form = _matches(text, rf"^{_SPACE}[+-]?0*[0-9]{{1,37}}{_SPACE}\z")
        return b.case(
            (
                decimal_form,
                b.case(
                    (b.negation(exp.Between(this=wide, low=low, high=high)), out_of_range),
                    otherwise=b.cast(wide, spark_type),
                ),
            ),
            # PostgreSQL also reads 0x1f, 0o17, 0b1, and underscores between digits.
            (_matches(text, _OTHER_INTEGER), _unsupported_form(type_oid)),
            (_matches(text, rf"^{_SPACE}[+-]?[0-9]+{_SPACE}\z"), out_of_range),
            # PostgreSQL does not look at what follows digits that are too many.
            (_begins_beyond(text, limit), out_of_range),
            (b.is_not_null(text), _invalid(type_oid, text)),
            otherwise=b.null_of(spark_type),
        )

    return Value(b.let([value.sql], body), type_oid)


def _begins_beyond(text: b.Tree, limit: int) -> b.Tree:
    """Return whether the last of a text's first digits makes more than ten times what it may."""
    pattern = rf"^{_SPACE}[+-]?0*([0-9]{{1,20}})"
    digits = b.call("regexp_extract", text, b.string(pattern), b.integer(1))
    least = b.cast(b.string(str((limit // 10 + 1) * 10)), "DECIMAL(38, 0)")
    beyond = b.infix(exp.GTE, b.cast(digits, "DECIMAL(38, 0)"), least)
    return b.both(_matches(text, pattern), beyond)


def _to_numeric(value: Value) -> Value:
    def body(text: b.Tree) -> b.Tree:
        plain = _stripped(text)
        simple = _matches(
            text,
            rf"^{_SPACE}(?=[^ ]{{1,39}}{_SPACE}\z)[+-]?([0-9]{{1,38}}([.][0-9]*)?|[.][0-9]+)"
            rf"{_SPACE}\z",
        )
        other = _matches(
            text, rf"(?i)^{_SPACE}([+-]?[0-9.][0-9_.a-fox+-]*|nan|[+-]?(inf|infinity)){_SPACE}\z"
        )
        digits = b.cast(b.call("replace", plain, b.string("."), b.string("")), WHOLE)
        point = b.call("instr", plain, b.string("."))
        places = b.case(
            (
                b.infix(exp.GT, point, b.integer(0)),
                b.infix(exp.Sub, b.call("length", plain), point),
            ),
            otherwise=b.integer(0),
        )
        parsed = b.case(
            (simple, digits),
            (other, _unsupported_form(oids.NUMERIC)),
            (b.is_not_null(text), _invalid(oids.NUMERIC, text)),
            otherwise=b.null_of(WHOLE),
        )
        return b.struct(value=parsed, scale=places)

    pair = b.let([value.sql], body)
    return floating(b.field(pair, "value"), b.field(pair, "scale"))


def _to_double(value: Value) -> Value:
    def body(text: b.Tree) -> b.Tree:
        number = b.cast(_stripped(text), "DOUBLE")
        finite = _matches(
            text, rf"^{_SPACE}[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?{_SPACE}\z"
        )
        special = _matches(text, rf"(?i)^{_SPACE}(nan|[+-]?(inf|infinity)){_SPACE}\z")
        hexadecimal = _matches(text, rf"(?i)^{_SPACE}[+-]?(0x[0-9a-fp.+-]*|nan\(.*){_SPACE}\z")
        message = b.call(
            "concat", b.string('"'), text, b.string('" is out of range for type double precision')
        )
        range_error = b.raise_error(sqlstate.NUMERIC_VALUE_OUT_OF_RANGE, message)
        infinite = b.infix(exp.EQ, b.call("abs", number), b.cast(b.string("Infinity"), "DOUBLE"))
        vanished = b.both(
            b.infix(exp.EQ, number, b.cast(b.integer(0), "DOUBLE")), _matches(text, "^[^eE]*[1-9]")
        )
        return b.case(
            (finite, b.checked(number, (b.either(infinite, vanished), range_error))),
            (special, number),
            (hexadecimal, _unsupported_form(oids.FLOAT8)),
            (b.is_not_null(text), _invalid(oids.FLOAT8, text)),
            otherwise=b.null_of("DOUBLE"),
        )

    return Value(b.let([value.sql], body), oids.FLOAT8)


def _to_boolean(value: Value) -> Value:
    def body(text: b.Tree) -> b.Tree:
        true = _matches(text, rf"(?i)^{_SPACE}(t|tr|tru|true|y|ye|yes|on|1){_SPACE}\z")
        false = _matches(text, rf"(?i)^{_SPACE}(f|fa|fal|fals|false|n|no|of|off|0){_SPACE}\z")
        return b.case(
            (true, b.TRUE),
            (false, b.FALSE),
            (b.is_not_null(text), _invalid(oids.BOOL, text)),
            otherwise=b.null_of("BOOLEAN"),
        )

    return Value(b.let([value.sql], body), oids.BOOL)


_DAY: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK: Final = r"([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{1,6})?)?"
_WORDS: Final = (
    r"(?i)^(?!.*(now|today|tomorrow|yesterday|epoch|inf|current|invalid|undefined))[a-z ]*\z"
)
"""Words, none of which stands for a date."""
_BEYOND_CALENDAR: Final = (
    r"^(?!0000)[0-9]{4}-((?!0[1-9]|1[0-2])|[0-9]{2}-(?!0[1-9]|[12][0-9]|3[01]))"
)
"""Months, and days of the month, that no calendar has."""
_DATE_STYLE_HINT: Final = 'Perhaps you need a different "DateStyle" setting.'


def _read_date(spark_type: str, type_oid: int, name: str, clock: str) -> Callable[[Value], Value]:
    """Read ``YYYY-MM-DD`` and maybe a time of day; nothing else of what PostgreSQL understands."""

    def read(value: Value) -> Value:
        def body(text: b.Tree) -> b.Tree:
            plain = _matches(text, rf"^{_DAY}{clock}\z")
            day = b.call("left", text, b.integer(10))
            # Spark takes the year 0, and has an error of its own for days there are not.
            exists = b.both(
                b.negation(_matches(text, "^0000")),
                b.is_not_null(b.call("try_to_date", day)),
            )
            fields = (b.string('date/time field value out of range: "'), text, b.string('"'))
            out_of_range = b.raise_error(
                sqlstate.DATETIME_FIELD_OVERFLOW,
                b.call("concat", *fields),
                hint=b.case((_matches(text, _BEYOND_CALENDAR), b.string(_DATE_STYLE_HINT))),
            )
            quoted = (b.string(f'invalid input syntax for type {name}: "'), text, b.string('"'))
            malformed = b.raise_error(sqlstate.INVALID_DATETIME_FORMAT, b.call("concat", *quoted))
            return b.case(
                (b.both(plain, exists), b.cast(text, spark_type)),
                (plain, out_of_range),
                (_matches(text, _WORDS), malformed),
                (b.is_not_null(text), _unsupported_form(type_oid)),
                otherwise=b.null_of(spark_type),
            )

        return Value(b.let([value.sql], body), type_oid)

    return read


def _to_uuid(value: Value) -> Value:
    def body(text: b.Tree) -> b.Tree:
        plain = _matches(text, r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\z")
        other = _matches(text, r"^\{?([0-9a-fA-F]{4}-?){7}[0-9a-fA-F]{4}\}?\z")
        return b.case(
            (plain, b.call("lower", text)),
            (other, _unsupported_form(oids.UUID)),
            (b.is_not_null(text), _invalid(oids.UUID, text)),
            otherwise=b.null_of("STRING"),
        )

    return Value(b.let([value.sql], body), oids.UUID)


def read_char(value: Value) -> Value:
    """Return the first byte of a text, as ``"char"``."""

    # charin() keeps the first byte; "\ooo" is an octal escape.
    def body(text: b.Tree) -> b.Tree:
        first = b.call("left", text, b.integer(1))
        unusual = b.either(_matches(text, r"^\\[0-3][0-7][0-7]"), _matches(first, r"[^\x00-\x7f]"))
        return b.checked(first, (unusual, _unsupported_form(oids.CHAR)))

    return Value(b.let([value.sql], body), oids.CHAR)


_INPUT: Final[dict[int, Callable[[Value], Value]]] = {
    oids.INT2: lambda value: _to_integer(value, oids.INT2),
    oids.INT4: lambda value: _to_integer(value, oids.INT4),
    oids.INT8: lambda value: _to_integer(value, oids.INT8),
    oids.NUMERIC: _to_numeric,
    oids.FLOAT8: _to_double,
    oids.BOOL: _to_boolean,
    oids.DATE: _read_date("DATE", oids.DATE, "date", ""),
    oids.TIMESTAMP: _read_date("TIMESTAMP_NTZ", oids.TIMESTAMP, "timestamp", rf"( {_CLOCK})?"),
    oids.UUID: _to_uuid,
    oids.CHAR: read_char,
}


def input_value(value: Value, type_oid: int) -> Value:
    """Return the value the type's input function reads from a text."""
    if type_oid in (oids.TEXT, oids.VARCHAR, oids.BPCHAR):
        return Value(value.sql, type_oid)
    read = _INPUT.get(type_oid)
    if read is None:
        raise UnsupportedError(f"text as {oids.type_name(type_oid)} is not supported")
    return read(value)
