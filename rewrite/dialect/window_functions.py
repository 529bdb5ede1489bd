"""Functions that only exist over windows."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from sqlglot import exp

from rewrite.dialect import builders as b
from rewrite.dialect.aggregates import over
from rewrite.dialect.calls import is_null_constant, known_integer
from rewrite.dialect.conditionals import align
from rewrite.dialect.literals import typed_null
from rewrite.errors import UnsupportedError
from rewrite.values import Value, WindowDefinition


@dataclass(frozen=True, slots=True)
class WindowCall:
    """One call of a window function."""

    signature: str
    args: tuple[Value, ...]
    result_oid: int
    window: WindowDefinition

    def refuse(self, what: str) -> UnsupportedError:
        """Return the error for a form of the call that has no exact mapping."""
        return UnsupportedError(f"window function {self.signature} {what} is not supported")

    def unframed(self, function: b.Tree) -> b.Tree:
        """Return a function that ignores the frame; without ORDER BY all rows are peers."""
        window = self.window
        if not window.order_by:
            window = replace(window, order_by=(exp.Ordered(this=b.NULL, nulls_first=True),))
        return over(function, window, frame=False)


Handler: TypeAlias = Callable[[WindowCall], Value]

_MOST_ROWS: Final = 2**31 - 1


def _rank(name: str, spark_type: str | None = "BIGINT") -> Handler:
    def handle(call: WindowCall) -> Value:
        number = call.unframed(b.call(name))
        return Value(b.cast(number, spark_type) if spark_type else number, call.result_oid)

    return handle


def _ntile(call: WindowCall) -> Value:
    buckets = known_integer(call.args[0])
    if buckets is None:
        raise call.refuse("with a number of buckets that is not a constant")
    if buckets <= 0:
        error = b.raise_error("22014", "argument of ntile must be greater than zero")
        return Value(b.cast(error, "INT"), call.result_oid)
    return Value(call.unframed(b.call("ntile", b.integer(buckets))), call.result_oid)


def _neighbour(*, after: bool) -> Handler:
    def handle(call: WindowCall) -> Value:
        value = call.args[0]
        distance = 1
        if len(call.args) > 1:
            if is_null_constant(call.args[1]):
                return typed_null(call.result_oid)
            known = known_integer(call.args[1])
            if known is None:
                raise call.refuse("with an offset that is not a constant")
            distance = known
        name = "lead" if after == (distance >= 0) else "lag"
        # No partition is longer than the largest INT.
        arguments = [b.integer(min(abs(distance), _MOST_ROWS))]
        if len(call.args) == 3:
            value, default = align([value, call.args[2]])
            arguments.append(default.sql)
        found = call.unframed(b.call(name, value.sql, *arguments))
        return replace(value, sql=found, constant=None)

    return handle


def _in_frame(name: str) -> Handler:
    def handle(call: WindowCall) -> Value:
        value = call.args[0]
        arguments = []
        if name == "nth_value":
            position = known_integer(call.args[1])
            if position is None:
                raise call.refuse("with a position that is not a constant")
            if position <= 0:
                error = b.raise_error("22016", "argument of nth_value must be greater than zero")
                return replace(
                    value, sql=b.case((b.TRUE, error), otherwise=value.sql), constant=None
                )
            arguments.append(b.integer(position))
        found = over(b.call(name, value.sql, *arguments), call.window)
        return replace(value, sql=found, constant=None)

    return handle


FUNCTIONS: Final[dict[str, Handler]] = {
    "row_number()": _rank("row_number"),
    "rank()": _rank("rank"),
    "dense_rank()": _rank("dense_rank"),
    "percent_rank()": _rank("percent_rank", None),
    "cume_dist()": _rank("cume_dist", None),
    "ntile(int4)": _ntile,
    "lag(anyelement)": _neighbour(after=False),
    "lag(anyelement,int4)": _neighbour(after=False),
    "lag(anycompatible,int4,anycompatible)": _neighbour(after=False),
    "lead(anyelement)": _neighbour(after=True),
    "lead(anyelement,int4)": _neighbour(after=True),
    "lead(anycompatible,int4,anycompatible)": _neighbour(after=True),
    "first_value(anyelement)": _in_frame("first_value"),
    "last_value(anyelement)": _in_frame("last_value"),
    "nth_value(anyelement,int4)": _in_frame("nth_value"),
}
