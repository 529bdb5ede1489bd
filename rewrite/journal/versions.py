"""The law of journals as trees of Spark SQL: what tells rows apart, and which version counts."""

from collections.abc import Sequence

from sqlglot import exp

from catalog.journal.key_bitmap import SHIFT, WORD_BITS, KeyRange
from catalog.journal.layout import IDENTITY, SUBSEQUENT, column_name, identity_names
from catalog.journal.order import Order, order_of
from catalog.model import LEAF, JournalTable
from rewrite.expressions import grouping_key, read_stored
from rewrite.query.sql import call, cast, column, is_null, literal


def version_order(table: JournalTable) -> Order:
    """Return which versions of a table's rows are newer."""
    return order_of(external=table.external is not None)


def newest_first(order: Order, alias: str) -> list[exp.Expression]:
    """Return the terms of an ORDER BY over row versions of bases, deltas and tails."""
    return [
        exp.Ordered(
            this=column(term.column, alias), desc=term.descending, nulls_first=term.nulls_first
        )
        for term in order.newest_first
    ]


def is_living(alias: str) -> exp.Expression:
    """Return the condition that a row version of a base, a delta or a tail is no tombstone."""
    return is_null(column(SUBSEQUENT, alias))


def identity_columns(table: JournalTable) -> list[str]:
    """Return the columns that tell rows apart: without key by the identity, and the leaf."""
    if table.key or all(one.attnum != LEAF for one in table.columns):
        return identity_names(table.key)
    return [IDENTITY, column_name(LEAF)]


def identity(table: JournalTable, alias: str) -> list[exp.Expression]:
    """Return expressions that are equal exactly for versions of one row.

    A numeric without scale is stored as text, in which 1.0 and 1.00 are different.
    """
    if not table.key:
        return [column(name, alias) for name in identity_columns(table)]
    return [_of_key(table, attnum, alias) for attnum in table.key]


def same_row(one: Sequence[exp.Expression], other: Sequence[exp.Expression]) -> list[exp.EQ]:
    """Return the conditions that two row versions, given by their identities, are of one row."""
    return [exp.EQ(this=left, expression=right) for left, right in zip(one, other, strict=True)]


def has_no_bit(key: exp.Expression, words: exp.Select, key_range: KeyRange) -> exp.Expression:
    """Return the condition that the bit of an integer is not set in a bitmap.

    What depends on the keys is in the words alone: conditions are the same for most bitmaps, and
    Spark, which keeps what it has compiled by its text, need not compile them again.
    """
    wide = cast(key, "bigint")
    number = wide if not key_range.origin else exp.Paren(this=wide - literal(key_range.origin))
    place = cast(call("shiftright", number, literal(SHIFT)), "int")
    bit = cast(exp.BitwiseAnd(this=number.copy(), expression=literal(WORD_BITS - 1)), "int")
    # Beyond the last word there is none: get() returns NULL there.
    word = call("get", exp.Subquery(this=words), place)
    found = exp.Coalesce(this=call("getbit", word, bit), expressions=[literal(0)])
    bounds = literal(key_range.origin), literal(key_range.last)
    return exp.If(
        this=exp.Between(this=wide.copy(), low=bounds[0], high=bounds[1]),
        true=exp.EQ(this=found, expression=literal(0)),
        false=exp.true(),
    )


def _of_key(table: JournalTable, attnum: int, alias: str) -> exp.Expression:
    definition = table.column(attnum)
    stored = column(column_name(attnum), alias)
    return grouping_key(read_stored(stored, definition.type_oid, definition.typmod))
