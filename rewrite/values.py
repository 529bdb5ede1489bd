"""What a compiled expression is, and what the compiler may ask about its surroundings.

A value is Spark SQL plus the PostgreSQL type it stands for. The representation of each type in
Spark is decided in ``rewrite.dialect.type_mapping``. A numeric carries a display scale that
Spark's DECIMAL does not have, so there are several forms of it, see ``rewrite.dialect.numerics``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

from sqlglot import exp

if TYPE_CHECKING:
    from catalog.model import Domain
    from rewrite.context import SessionConstants
    from rewrite.tree import Node


class Constant(NamedTuple):
    """A value known when the statement is compiled."""

    value: object
    """As in ``ParameterValue``; dates and times of day are kept as days and microseconds."""


class DecimalShape(NamedTuple):
    """Precision and scale of the Spark DECIMAL that holds a numeric."""

    precision: int
    scale: int


class Mixed(NamedTuple):
    """A numeric in text form whose display scale is one of a few: the same without text."""

    text: exp.Expression
    """The text of which this is the number."""
    number: exp.Expression
    """A DECIMAL of the largest scale."""
    shape: DecimalShape
    scale: exp.Expression
    """The display scale, where there is a number."""


@dataclass(frozen=True, slots=True)
class Value:
    """A compiled expression."""

    sql: exp.Expression
    """Spark SQL; shared between trees, so whoever embeds it copies it."""
    type_oid: int
    typmod: int = -1
    scale: int | exp.Expression | None = None
    """Display scale of a numeric. None: PostgreSQL's own text in a STRING. An expression only
    occurs inside the compiler of expressions, where ``sql`` holds the digits without decimal
    point."""
    decimal: DecimalShape | None = None
    """Spark type of a numeric whose display scale is known."""
    constant: Constant | None = None
    """Set for literals of simple types and bound parameters."""
    mixed: Mixed | None = None
    """Of a numeric in text form, maybe; it says nothing where ``sql`` is not its text."""

    @property
    def parts(self) -> tuple[exp.Expression, ...]:
        """Return the expressions that carry the value: itself, then a scale that is computed."""
        if isinstance(self.scale, exp.Expression):
            return (self.sql, self.scale)
        return (self.sql,)

    def with_parts(self, parts: Sequence[exp.Expression]) -> "Value":
        """Return the same value read from other expressions, for instance columns of a subquery."""
        if isinstance(self.scale, exp.Expression):
            return replace(self, sql=parts[0], scale=parts[1], constant=None)
        return replace(self, sql=parts[0], constant=None)


@dataclass(frozen=True, slots=True)
class WindowDefinition:
    """A window clause, compiled."""

    partition_by: tuple[exp.Expression, ...]
    order_by: tuple[exp.Ordered, ...]
    frame: exp.WindowSpec | None
    """None is the default frame: all rows up to the last peer of the current one."""


class Scope(Protocol):
    """What surrounds an expression: columns, parameters, sublinks, windows and the session."""

    @property
    def constants(self) -> "SessionConstants":
        """Values that stay the same during the statement."""

    def column(self, varno: int, attno: int, levelsup: int) -> Value:
        """Return the column a Var names."""

    def parameter(self, paramid: int) -> Value:
        """Return the value of parameter ``$paramid``, see ``compile_parameter``."""

    def sublink(self, node: "Node", compile_node: Callable[["Node"], Value]) -> Value:
        """Return the value of a SubLink; ``compile_node`` compiles nodes of the outer query."""

    def sublink_column(self, paramid: int) -> Value:
        """Return column ``paramid`` of the sublink whose test expression is being compiled."""

    def grouping(self, node: "Node") -> Value:
        """Return the value of a GroupingFunc node."""

    def domain(self, oid: int) -> "Domain | None":
        """Return what the values of a domain have to be; None where that is not known."""

    def window(self, winref: int) -> WindowDefinition:
        """Return the window clause a WindowFunc refers to."""
