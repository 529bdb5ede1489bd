"""What the function tables are made of: calls with compiled arguments, and their handlers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias

from rewrite.context import SessionConstants
from rewrite.dialect import builders as b
from rewrite.dialect import oids
from rewrite.dialect.literals import typed_null
from rewrite.errors import UnsupportedError
from rewrite.values import Value


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a PostgreSQL function or operator."""

    key: str
    """C name of the function, or its signature where it has none (see catalog/pg/functions.py)."""
    signature: str
    """Name and argument types, for messages."""
    args: tuple[Value, ...]
    result_oid: int
    result_typmod: int
    collation: int
    constants: SessionConstants
    variadic: bool = False
    """True when the last argument is an array given with VARIADIC."""

    @property
    def trees(self) -> tuple[b.Tree, ...]:
        """Return the Spark SQL of the arguments."""
        return tuple(value.sql for value in self.args)

    def result(self, sql: b.Tree) -> Value:
        """Return a value of the call's result type."""
        return Value(sql, self.result_oid, self.result_typmod)

    def refuse(self, what: str | None = None) -> UnsupportedError:
        """Return the error for a call that has no exact mapping."""
        reason = f" {what}" if what else ""
        return UnsupportedError(f"function {self.signature}{reason} is not supported")

    def text_constant(self, index: int) -> str:
        """Return an argument that must be a known text."""
        constant = self.args[index].constant
        if constant is None or not isinstance(constant.value, str):
            raise self.refuse(f"with argument {index + 1} that is not a constant")
        return constant.value

    def texts_constant(self, index: int) -> Sequence[str | None]:
        """Return an argument that must be a known array of texts."""
        constant = self.args[index].constant
        if constant is None or not isinstance(constant.value, list | tuple):
            raise self.refuse(f"with argument {index + 1} that is not a constant")
        return constant.value

    def integer_constant(self, index: int) -> int:
        """Return an argument that must be a known integer."""
        constant = self.args[index].constant
        if constant is None or not isinstance(constant.value, int):
            raise self.refuse(f"with argument {index + 1} that is not a constant")
        return constant.value


Handler: TypeAlias = Callable[[Call], Value]


def spark_function(name: str) -> Handler:
    """Map a call to a Spark function of the same arguments and meaning."""

    def handle(call: Call) -> Value:
        return call.result(b.call(name, *call.trees))

    return handle


def strict(handler: Handler) -> Handler:
    """Return a handler of a function that returns NULL if an argument is NULL, known or not."""

    def handle(call: Call) -> Value:
        if any(b.is_null_literal(tree) for tree in call.trees):
            return typed_null(call.result_oid, call.result_typmod)
        return handler(call)

    return handle


def known_integer(value: Value) -> int | None:
    """Return the value of an integer constant."""
    constant = value.constant
    if constant is None or isinstance(constant.value, bool) or not isinstance(constant.value, int):
        return None
    return constant.value


def known_text(value: Value) -> str | None:
    """Return the value of a text constant."""
    constant = value.constant
    return constant.value if constant is not None and isinstance(constant.value, str) else None


def known_decimal(value: Value) -> Decimal | None:
    """Return the value of a numeric constant."""
    constant = value.constant
    return constant.value if constant is not None and isinstance(constant.value, Decimal) else None


def is_null_constant(value: Value) -> bool:
    """Tell whether a value is known to be NULL."""
    return value.constant is not None and value.constant.value is None


def plain(sql: b.Tree, type_oid: int = oids.TEXT) -> Value:
    """Return a value of a type without modifier."""
    return Value(sql, type_oid)
