"""Equality and order of values, as the default operator class of each type has it."""

from typing import Final

from sqlglot import exp

from rewrite.context import SessionConstants
from rewrite.dialect import builders as b
from rewrite.dialect import oids
from rewrite.dialect.calls import Call, Handler, known_integer, known_text
from rewrite.dialect.literals import DAY, date_literal
from rewrite.dialect.numerics import as_number, comparison_key, is_fixed, shape_of
from rewrite.dialect.time_zones import Zone, instant, session_zone
from rewrite.dialect.timestamp_range import midnight_to_compare, start_to_compare
from rewrite.dialect.type_mapping import MAX_PRECISION, character_length
from rewrite.errors import UnsupportedError
from rewrite.values import Value

# Types whose representation orders and equals as PostgreSQL does: text by bytes, NaN above all
# floats.
_PLAIN: Final = frozenset(
    {
        oids.BOOL,
        oids.BYTEA,
        oids.NAME,
        oids.INT2,
        oids.INT4,
        oids.INT8,
        oids.TEXT,
        oids.VARCHAR,
        oids.FLOAT4,
        oids.FLOAT8,
        oids.DATE,
        oids.TIME,
        oids.TIMESTAMP,
        oids.TIMESTAMPTZ,
        oids.UUID,
        *oids.OBJECT_IDS,
    }
)

_MOMENTS: Final = frozenset({oids.TIMESTAMP, oids.TIMESTAMPTZ})
FLIPPED: Final[dict[type[exp.Binary], type[exp.Binary]]] = {
    exp.EQ: exp.EQ,
    exp.NEQ: exp.NEQ,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
}
"""Operators by those that mean the same with their operands exchanged."""
ARRAY_ELEMENTS: Final = (_PLAIN | {oids.CHAR}) - {oids.FLOAT4, oids.FLOAT8}


def interval_span(interval: b.Tree) -> b.Tree:
    """Return the microseconds intervals are compared by: 24 hours a day, 30 days a month."""

    def span(value: b.Tree) -> b.Tree:
        months = b.cast(b.field(value, "months"), "DECIMAL(10, 0)")
        days = b.cast(b.field(value, "days"), "DECIMAL(10, 0)")
        thirty = b.cast(b.integer(30), "DECIMAL(2, 0)")
        day = b.cast(b.bigint(86_400_000_000), "DECIMAL(11, 0)")
        whole = b.infix(exp.Mul, b.infix(exp.Add, b.infix(exp.Mul, months, thirty), days), day)
        micros = b.cast(b.field(value, "microseconds"), "DECIMAL(19, 0)")
        return b.infix(exp.Add, whole, micros)

    return b.let([interval], span)


def ordering_key(value: Value) -> b.Tree:
    """Return an expression Spark orders as PostgreSQL orders the value."""
    if value.type_oid in _PLAIN:
        return value.sql
    if value.type_oid == oids.NUMERIC:
        number = as_number(value)
        return number.sql if is_fixed(number) else comparison_key(number)
    if value.type_oid == oids.BPCHAR:
        return trimmed(value.sql)
    if value.type_oid == oids.INTERVAL:
        return interval_span(value.sql)
    if value.type_oid == oids.CHAR:
        return _byte(value.sql)
    raise UnsupportedError(f"ordering values of {oids.type_name(value.type_oid)} is not supported")


def _byte(char: b.Tree) -> b.Tree:
    """Return the number of a ``"char"``, which is written in octal beyond ASCII."""

    def body(text: b.Tree) -> b.Tree:
        octal = b.infix(exp.EQ, b.call("length", text), b.integer(4))
        number = b.call(
            "conv", b.call("substring", text, b.integer(2)), b.integer(8), b.integer(10)
        )
        return b.case((octal, b.cast(number, "INT")), otherwise=b.call("ascii", text))

    return b.let([char], body)


def equality_key(value: Value) -> b.Tree:
    """Return an expression Spark finds equal exactly when PostgreSQL finds the values equal."""
    if value.type_oid == oids.CHAR:
        return value.sql
    if oids.ELEMENTS.get(value.type_oid) in ARRAY_ELEMENTS:
        return value.sql
    try:
        return ordering_key(value)
    except UnsupportedError as error:
        raise UnsupportedError(
            f"comparing values of {oids.type_name(value.type_oid)} is not supported"
        ) from error


def trimmed(text: b.Tree) -> b.Tree:
    """Return a ``character`` value without its trailing blanks; other white space stays."""
    return b.call("rtrim", text)


def padded_width(value: Value) -> int | None:
    """Return the number of characters a ``character(n)`` column is padded to; None for others."""
    if value.type_oid == oids.BPCHAR and isinstance(value.sql, exp.Column):
        return character_length(value.typmod)
    return None


def _bpchar_operands(left: Value, right: Value) -> tuple[b.Tree, b.Tree]:
    """Return operands that equal as ``character`` values do; columns stay bare for pushdown."""
    for column, other in ((left, right), (right, left)):
        width, text = padded_width(column), known_text(other)
        if width is not None and text is not None:
            padded = b.string(text.rstrip(" ").ljust(width))
            return (column.sql, padded) if column is left else (padded, column.sql)
    if (width := padded_width(left)) is not None and width == padded_width(right):
        return left.sql, right.sql
    return trimmed(left.sql), trimmed(right.sql)


def _numeric_operands(left: Value, right: Value) -> tuple[b.Tree, b.Tree]:
    """Return DECIMALs where one DECIMAL type holds both numbers, else keys of any magnitude."""
    left, right = as_number(left), as_number(right)
    if is_fixed(left) and is_fixed(right):
        one, other = shape_of(left), shape_of(right)
        whole = max(one.precision - one.scale, other.precision - other.scale)
        if whole + max(one.scale, other.scale) <= MAX_PRECISION:
            return left.sql, right.sql
    return comparison_key(left), comparison_key(right)


def operands(
    left: Value, right: Value, constants: SessionConstants, *, equality: bool
) -> tuple[b.Tree, b.Tree]:
    """Return two values as expressions that Spark compares as PostgreSQL compares the values."""
    if equality and left.type_oid == right.type_oid == oids.BPCHAR:
        return _bpchar_operands(left, right)
    if left.type_oid == right.type_oid == oids.NUMERIC:
        return _numeric_operands(left, right)
    zone = session_zone(constants)
    if left.type_oid == oids.TIMESTAMPTZ and right.type_oid in (oids.DATE, oids.TIMESTAMP):
        return left.sql, _as_instant(right, zone)
    if right.type_oid == oids.TIMESTAMPTZ and left.type_oid in (oids.DATE, oids.TIMESTAMP):
        return _as_instant(left, zone), right.sql
    if oids.DATE in (left.type_oid, right.type_oid) and left.type_oid != right.type_oid:
        return _as_timestamp(left), _as_timestamp(right)
    key = equality_key if equality else ordering_key
    return key(left), key(right)


def _as_timestamp(value: Value) -> b.Tree:
    return value.sql if value.type_oid == oids.TIMESTAMP else midnight_to_compare(value.sql)


def _as_instant(value: Value, zone: Zone) -> b.Tree:
    if value.type_oid == oids.DATE:
        return start_to_compare(value, zone)
    return instant(value.sql, zone)


def _with_day(
    operator: type[exp.Binary], left: Value, right: Value, constants: SessionConstants
) -> b.Tree | None:
    """Return a comparison of a date and a known timestamp as one of dates, which a scan can use."""
    if right.type_oid == oids.DATE:
        left, right, operator = right, left, FLIPPED[operator]
    zoned = right.type_oid == oids.TIMESTAMPTZ and not session_zone(constants).is_utc
    known = known_integer(right)
    if left.type_oid != oids.DATE or right.type_oid not in _MOMENTS or zoned or known is None:
        return None
    day, rest = divmod(known, DAY)
    if rest and operator in (exp.EQ, exp.NEQ):
        return b.case((b.is_not_null(left.sql), exp.Boolean(this=operator is exp.NEQ)))
    if operator in (exp.LT, exp.GTE):
        day += rest > 0
    return b.infix(operator, left.sql, date_literal(day))


def compare(
    operator: type[exp.Binary], left: Value, right: Value, constants: SessionConstants
) -> b.Tree:
    """Return ``left operator right`` with PostgreSQL's meaning, NULL when one of them is."""
    days = _with_day(operator, left, right, constants)
    if days is not None:
        return days
    equality = operator in (exp.EQ, exp.NEQ)
    return b.infix(operator, *operands(left, right, constants, equality=equality))


def not_distinct(left: Value, right: Value, constants: SessionConstants) -> b.Tree:
    """Return ``left IS NOT DISTINCT FROM right``."""
    return b.infix(exp.NullSafeEQ, *operands(left, right, constants, equality=True))


def _comparison(operator: type[exp.Binary]) -> Handler:
    def handle(call: Call) -> Value:
        left, right = call.args
        return call.result(compare(operator, left, right, call.constants))

    return handle


_OPERATORS: Final[dict[str, type[exp.Binary]]] = {
    "eq": exp.EQ,
    "ne": exp.NEQ,
    "lt": exp.LT,
    "le": exp.LTE,
    "gt": exp.GT,
    "ge": exp.GTE,
}

_FAMILIES: Final = (
    *(
        "int2{}",
        "int4{}",
        "int8{}",
        "int24{}",
        "int28{}",
        "int42{}",
        "int48{}",
        "int82{}",
        "int84{}",
    ),
    *("float4{}", "float8{}", "float48{}", "float84{}", "numeric_{}"),
    *(
        "bool{}",
        "char{}",
        "name{}",
        "name{}text",
        "text{}name",
        "bpchar{}",
        "bytea{}",
        "oid{}",
        "uuid_{}",
    ),
    *("date_{}", "time_{}", "timestamp_{}", "interval_{}"),
    *("date_{}_timestamp", "date_{}_timestamptz", "timestamp_{}_date", "timestamp_{}_timestamptz"),
    *("timestamptz_{}_date", "timestamptz_{}_timestamp"),
)

_IRREGULAR: Final[dict[str, str]] = {
    "texteq": "eq",
    "textne": "ne",
    "text_lt": "lt",
    "text_le": "le",
    "text_gt": "gt",
    "text_ge": "ge",
    "array_eq": "eq",
    "array_ne": "ne",
}

COMPARISONS: Final[dict[str, type[exp.Binary]]] = {
    family.format(name): operator for family in _FAMILIES for name, operator in _OPERATORS.items()
} | {key: _OPERATORS[name] for key, name in _IRREGULAR.items()}
"""Key of each comparison function → Spark's operator."""

FUNCTIONS: Final[dict[str, Handler]] = {
    key: _comparison(operator) for key, operator in COMPARISONS.items()
}
