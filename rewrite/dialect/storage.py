"""Between values and the representation in which columns are stored."""

from sqlglot import exp

from rewrite.dialect import builders as b
from rewrite.dialect import oids
from rewrite.dialect.numerics import as_fixed, as_text
from rewrite.dialect.type_mapping import numeric_shape, storage_type
from rewrite.values import Value


def read_stored(column: exp.Expression, type_oid: int, typmod: int) -> Value:
    """Return the value of a column in storage representation."""
    if type_oid == oids.NUMERIC and (shape := numeric_shape(typmod)) is not None:
        return Value(column, type_oid, typmod, shape.scale, shape)
    return Value(column, type_oid, typmod)


def to_stored(value: Value, type_oid: int, typmod: int) -> exp.Expression:
    """Return how a value that has a column's type and modifier is stored."""
    if type_oid != oids.NUMERIC:
        return b.cast(value.sql, storage_type(type_oid, typmod))
    shape = numeric_shape(typmod)
    if shape is None:
        return as_text(value)
    return as_fixed(value, shape)
