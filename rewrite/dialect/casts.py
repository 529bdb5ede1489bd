"""Cast functions and length coercions."""

from collections.abc import Callable
from dataclasses import replace
from decimal import Context, Decimal
from typing import Final

from sqlglot import exp

from catalog.pg import sqlstate
from rewrite.dialect import builders as b
from rewrite.dialect import oids
from rewrite.dialect.calls import Call, Handler, known_text
from rewrite.dialect.datetimes import (
    known_as,
    to_date,
    to_time,
    to_timestamp,
    to_timestamptz,
)
from rewrite.dialect.floats import OVERFLOW, UNDERFLOW, is_infinite, is_zero
from rewrite.dialect.floats import SPARK_TYPES as SPARK_FLOATS
from rewrite.dialect.integers import SPARK_TYPES, object_id
from rewrite.dialect.numeric_functions import from_integer
from rewrite.dialect.numerics import as_fixed, as_text, is_fixed, shape_of
from rewrite.dialect.text_input import read_char
from rewrite.dialect.type_mapping import MAX_PRECISION, character_length
from rewrite.values import Constant, DecimalShape, Value

_LIMITS: Final[dict[int, int]] = {oids.INT2: 2**15, oids.INT4: 2**31, oids.INT8: 2**63}


def _out_of_range(type_oid: int) -> b.Tree:
    return b.raise_error(
        sqlstate.NUMERIC_VALUE_OUT_OF_RANGE, f"{oids.type_name(type_oid)} out of range"
    )


def _known_float(value: Value) -> Constant | None:
    """Return a constant as double precision holds it; None for what is none or no exact number."""
    if value.constant is None:
        return None
    number = value.constant.value
    if number is None:
        return Constant(None)
    return Constant(float(number)) if isinstance(number, (int, Decimal)) else None


def _to(spark_type: str) -> Handler:
    """Map a cast that every value survives unchanged."""

    def handle(call: Call) -> Value:
        value = call.args[0]
        constant = value.constant if call.result_oid in oids.INTEGERS else None
        if call.result_oid == oids.FLOAT8:
            constant = _known_float(value)
        sql = b.cast(value.sql, spark_type)
        return Value(sql, call.result_oid, call.result_typmod, constant=constant)

    return handle


def _narrow_integer(call: Call) -> Value:
    target = call.result_oid

    def body(value: b.Tree) -> b.Tree:
        limit = _LIMITS[target]
        low, high = b.bigint(-limit), b.bigint(limit - 1)
        outside = b.negation(exp.Between(this=value, low=low, high=high))
        return b.checked(b.cast(value, SPARK_TYPES[target]), (outside, _out_of_range(target)))

    return call.result(b.let(call.trees, body))


def _numeric_to_integer(call: Call) -> Value:
    target = call.result_oid
    limit = _LIMITS[target]

    def body(whole: b.Tree) -> b.Tree:
        low = b.cast(b.string(str(-limit)), f"DECIMAL({MAX_PRECISION}, 0)")
        high = b.cast(b.string(str(limit - 1)), f"DECIMAL({MAX_PRECISION}, 0)")
        outside = b.negation(exp.Between(this=whole, low=low, high=high))
        return b.checked(b.cast(whole, SPARK_TYPES[target]), (outside, _out_of_range(target)))

    # ROUND could need one digit more than the DECIMAL has; a cast to scale 0 rounds, too.
    return call.result(b.let([as_fixed(call.args[0], DecimalShape(MAX_PRECISION, 0))], body))


def _float_to_integer(call: Call) -> Value:
    target = call.result_oid

    def body(value: b.Tree) -> b.Tree:
        nearest = b.call("rint", value)
        limit = _LIMITS[target]
        low = b.cast(b.string(f"-{limit}"), "DOUBLE")
        high = b.cast(b.string(str(limit)), "DOUBLE")
        inside = b.both(b.infix(exp.GTE, nearest, low), b.infix(exp.LT, nearest, high))
        return b.checked(
            b.cast(nearest, SPARK_TYPES[target]), (b.negation(inside), _out_of_range(target))
        )

    return call.result(b.let([b.cast(call.trees[0], "DOUBLE")], body))


def _double_to_float(call: Call) -> Value:
    def body(value: b.Tree) -> b.Tree:
        narrow = b.cast(value, "FLOAT")
        overflow = b.both(is_infinite(narrow), b.negation(is_infinite(value)))
        underflow = b.both(is_zero(narrow), b.negation(is_zero(value)))
        return b.checked(narrow, (overflow, OVERFLOW), (underflow, UNDERFLOW))

    return call.result(b.let(call.trees, body))


def _numeric_to_float(call: Call) -> Value:
    value = call.args[0]
    if call.result_oid == oids.FLOAT8 and is_fixed(value):
        return replace(call.result(b.cast(value.sql, "DOUBLE")), constant=_known_float(value))
    # By way of text: DECIMAL to FLOAT would round twice.
    return call.result(b.cast(as_text(value), SPARK_FLOATS[call.result_oid]))


def _integer_to_numeric(call: Call) -> Value:
    return from_integer(call.args[0])


def numeric_typmod(typmod: int) -> tuple[int, int]:
    """Return p and s of ``numeric(p, s)``; s may be negative, or above p."""
    return ((typmod - 4) >> 16) & 0xFFFF, (((typmod - 4) & 0x7FF) ^ 1024) - 1024


def _numeric_length(call: Call) -> Value:
    """Map the length coercion of numeric: round to the scale, fail beyond the precision."""
    typmod = call.integer_constant(1)
    value = call.args[0]
    if typmod < 4:
        return value
    precision, scale = numeric_typmod(typmod)
    display, whole = max(scale, 0), precision - scale
    if display > MAX_PRECISION:
        raise call.refuse(f"to numeric({precision},{scale})")
    target = DecimalShape(min(max(whole, 1) + display, MAX_PRECISION), display)
    if is_fixed(value) and scale >= 0 and _surely_fits(shape_of(value), whole, scale):
        return replace(
            value,
            sql=as_fixed(value, target),
            typmod=typmod,
            scale=display,
            decimal=target,
            constant=_with_scale(value.constant, display),
        )
    wide = DecimalShape(MAX_PRECISION, display)
    bound = f"10^{whole}" if whole else "1"
    overflow = b.raise_error(
        sqlstate.NUMERIC_VALUE_OUT_OF_RANGE,
        "numeric field overflow",
        f"A field with precision {precision}, scale {scale} must round to an absolute value"
        f" less than {bound}.",
    )

    def body(number: b.Tree) -> b.Tree:
        rounded = (
            number
            if scale >= 0
            else b.cast(b.call("round", number, b.integer(scale)), b.decimal_type(*wide))
        )
        too_large = b.either(
            b.infix(exp.GTE, rounded, _power_of_ten(whole)),
            b.infix(exp.LTE, rounded, _power_of_ten(whole, "-")),
        )
        return b.checked(b.cast(rounded, b.decimal_type(*target)), (too_large, overflow))

    # Negative scales round digits before the point: none may be rounded away before.
    first = wide if scale >= 0 or not is_fixed(value) else shape_of(value)
    return Value(b.let([as_fixed(value, first)], body), oids.NUMERIC, typmod, display, target)


def _with_scale(constant: Constant | None, scale: int) -> Constant | None:
    """Return a constant with more digits after the point: it is computed with as it is shown."""
    if constant is None or not isinstance(constant.value, Decimal):
        return constant
    # Decimal's own context would round to 28 digits.
    places = Decimal((0, (1,), -scale))
    return Constant(constant.value.quantize(places, context=Context(prec=2 * MAX_PRECISION)))


def _surely_fits(shape: DecimalShape, whole: int, scale: int) -> bool:
    return shape.scale <= scale and shape.precision - shape.scale <= whole


def _power_of_ten(exponent: int, sign: str = "") -> b.Tree:
    if exponent >= MAX_PRECISION:
        return b.cast(b.string(sign + "9" * MAX_PRECISION), b.decimal_type(MAX_PRECISION, 0))
    if exponent >= 0:
        return b.cast(b.string(f"{sign}1{'0' * exponent}"), b.decimal_type(exponent + 1, 0))
    digits = f"{sign}0.{'0' * (-exponent - 1)}1"
    return b.cast(b.string(digits), b.decimal_type(-exponent, -exponent))


def _varchar_length(call: Call) -> Value:
    limit = character_length(call.integer_constant(1))
    explicit = _explicit(call)
    value = call.args[0]
    typmod = call.integer_constant(1)
    if limit is None:
        return Value(value.sql, oids.VARCHAR, typmod, constant=value.constant)
    known = known_text(value)
    if known is not None and len(known) <= limit:
        return Value(value.sql, oids.VARCHAR, typmod, constant=value.constant)

    def body(text: b.Tree) -> b.Tree:
        cut = b.call("left", text, b.integer(limit))
        fits = b.infix(exp.LTE, b.call("length", text), b.integer(limit))
        if explicit:
            return cut
        blank = b.infix(
            exp.EQ, b.call("rtrim", b.call("substring", text, b.integer(limit + 1))), b.string("")
        )
        error = b.raise_error(
            sqlstate.STRING_DATA_RIGHT_TRUNCATION,
            f"value too long for type character varying({limit})",
        )
        return b.case(
            (b.is_null(text), b.null_of("STRING")), (fits, text), (blank, cut), otherwise=error
        )

    return Value(b.let([value.sql], body), oids.VARCHAR, typmod)


def _bpchar_length(call: Call) -> Value:
    limit = character_length(call.integer_constant(1))
    typmod = call.integer_constant(1)
    explicit = _explicit(call)
    value = call.args[0]
    if limit is None:
        return Value(value.sql, oids.BPCHAR, typmod, constant=value.constant)
    known = known_text(value)
    if known is not None and len(known) <= limit:
        padded = known.ljust(limit)
        return Value(b.string(padded), oids.BPCHAR, typmod, constant=Constant(padded))

    def body(text: b.Tree) -> b.Tree:
        length = b.call("length", text)
        width = b.integer(limit)
        padded = b.call("rpad", text, width, b.string(" "))
        if explicit:
            return padded
        # Only blanks may be cut off silently.
        surplus = b.call("rtrim", b.call("substring", text, b.integer(limit + 1)))
        too_long = b.both(b.infix(exp.GT, length, width), b.infix(exp.NEQ, surplus, b.string("")))
        error = b.raise_error(
            sqlstate.STRING_DATA_RIGHT_TRUNCATION, f"value too long for type character({limit})"
        )
        return b.checked(padded, (too_long, error))

    return Value(b.let([value.sql], body), oids.BPCHAR, typmod)


def _explicit(call: Call) -> bool:
    constant = call.args[2].constant if len(call.args) > 2 else None
    return constant is not None and constant.value is True


def _boolean_to_integer(call: Call) -> Value:
    return call.result(b.cast(call.trees[0], "INT"))


def _integer_to_boolean(call: Call) -> Value:
    return call.result(b.infix(exp.NEQ, call.trees[0], b.integer(0)))


def _boolean_to_text(call: Call) -> Value:
    return call.result(b.cast(call.trees[0], "STRING"))


def _text_to_name(call: Call) -> Value:
    # Names keep 63 bytes and cut no character in two; longer ones are refused at run time.
    def body(text: b.Tree) -> b.Tree:
        too_long = b.infix(exp.GT, b.call("octet_length", text), b.integer(63))
        error = b.raise_error(
            sqlstate.FEATURE_NOT_SUPPORTED, "names of more than 63 bytes are not supported"
        )
        return b.checked(text, (too_long, error))

    source = call.args[0]
    text = b.call("rtrim", source.sql) if source.type_oid == oids.BPCHAR else source.sql
    return call.result(b.let([text], body))


def _small_integer(call: Call) -> Value:
    if call.result_oid in oids.OBJECT_IDS:
        return call.result(object_id(call.trees[0]))
    return _to("INT")(call)


def _same(call: Call) -> Value:
    return call.result(call.trees[0])


def _temporal(convert: Callable[..., b.Tree]) -> Handler:
    def handle(call: Call) -> Value:
        if call.result_oid != oids.TIME:
            known = known_as(call.args[0], call.result_oid, call.constants)
            if known is not None:
                return known
        return call.result(convert(call.args[0], call.constants))

    return handle


FUNCTIONS: Final[dict[str, Handler]] = {
    "i2toi4": _small_integer,
    "int28": _to("BIGINT"),
    "int48": _to("BIGINT"),
    "oidtoi8": _same,
    "i4toi2": _narrow_integer,
    "int82": _narrow_integer,
    "int84": _narrow_integer,
    "i2tof": _to("FLOAT"),
    "i4tof": _to("FLOAT"),
    "i8tof": _to("FLOAT"),
    "i2tod": _to("DOUBLE"),
    "i4tod": _to("DOUBLE"),
    "i8tod": _to("DOUBLE"),
    "ftod": _to("DOUBLE"),
    "dtof": _double_to_float,
    **dict.fromkeys(("ftoi2", "ftoi4", "ftoi8", "dtoi2", "dtoi4", "dtoi8"), _float_to_integer),
    **dict.fromkeys(("int2_numeric", "int4_numeric", "int8_numeric"), _integer_to_numeric),
    **dict.fromkeys(("numeric_int2", "numeric_int4", "numeric_int8"), _numeric_to_integer),
    **dict.fromkeys(("numeric_float4", "numeric_float8"), _numeric_to_float),
    "numeric": _numeric_length,
    "varchar": _varchar_length,
    "bpchar": _bpchar_length,
    "bool_int4": _boolean_to_integer,
    "int4_bool": _integer_to_boolean,
    "booltext": _boolean_to_text,
    "text_char": lambda call: read_char(call.args[0]),
    "text_name": _text_to_name,
    "bpchar_name": _text_to_name,
    "name_text": _same,
    "name_bpchar": _same,
    "char_text": _same,
    "timestamp_date": _temporal(to_date),
    "timestamptz_date": _temporal(to_date),
    "date_timestamp": _temporal(to_timestamp),
    "timestamptz_timestamp": _temporal(to_timestamp),
    "date_timestamptz": _temporal(to_timestamptz),
    "timestamp_timestamptz": _temporal(to_timestamptz),
    "timestamp_time": _temporal(to_time),
    "timestamptz_time": _temporal(to_time),
}
