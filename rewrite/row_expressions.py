"""Values computed of the stored columns of one row, which needs nothing that only Spark has.

Whatever holds the rows can evaluate them, a column at a time. Types are Spark's, and so is the
meaning of each operator, under ANSI rules.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import TypeAlias


class Operator(Enum):
    """What is done with operands."""

    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    REMAINDER = "%"
    NEGATE = "negate"
    ABSOLUTE = "abs"
    EQUAL = "="
    DIFFERENT = "<>"
    LESS = "<"
    LESS_EQUAL = "<="
    GREATER = ">"
    GREATER_EQUAL = ">="
    SAME = "<=>"
    """Equal, or both NULL."""
    AND = "and"
    OR = "or"
    NOT = "not"
    IS_NULL = "is null"
    AMONG = "in"
    """The first operand is one of the others, which are constants."""
    CASE = "case"
    """Condition and value in turn, then what is the value where no condition is true."""
    COALESCE = "coalesce"
    CAST = "cast"
    """To the kind of the operation."""
    FAIL = "fail"
    """An error for each row that is evaluated."""


MAY_FAIL = frozenset(
    {
        Operator.ADD,
        Operator.SUBTRACT,
        Operator.MULTIPLY,
        Operator.REMAINDER,
        Operator.NEGATE,
        Operator.ABSOLUTE,
        Operator.CAST,
        Operator.FAIL,
    }
)
"""Operators that fail for some operands."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A column of the table, as it is stored."""

    name: str
    """``c{attnum}``, or ``row_identity``."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A value that is the same for all rows; dates are days, times microseconds since 1970."""

    value: bool | int | Decimal | str | None
    kind: str
    """Its Spark type, as DDL has it."""


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator and its operands."""

    operator: Operator
    operands: tuple["Expression", ...]
    kind: str = ""


Expression: TypeAlias = Stored | Constant | Operation


def parts(expression: Expression) -> Iterator[Expression]:
    """Yield an expression, and all that it consists of."""
    yield expression
    if isinstance(expression, Operation):
        for operand in expression.operands:
            yield from parts(operand)


def can_fail(expression: Expression) -> bool:
    """Return whether rows can be met that are an error."""
    return any(
        isinstance(part, Operation) and part.operator in MAY_FAIL for part in parts(expression)
    )


def stored_names(*expressions: Expression | None) -> frozenset[str]:
    """Return the names of the stored columns that expressions look at."""
    return frozenset(
        part.name
        for expression in expressions
        if expression is not None
        for part in parts(expression)
        if isinstance(part, Stored)
    )
