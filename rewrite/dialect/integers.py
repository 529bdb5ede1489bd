"""Integer operators and functions: truncating division, overflow as an error."""

from collections.abc import Callable
from typing import Final

from sqlglot import exp

from rewrite.dialect import builders as b
from rewrite.dialect import oids
from rewrite.dialect.calls import Call, Handler
from rewrite.values import Value

SPARK_TYPES: Final[dict[int, str]] = {oids.INT2: "SMALLINT", oids.INT4: "INT", oids.INT8: "BIGINT"}


_WIDER: Final[dict[int, str]] = {oids.INT2: "INT", oids.INT4: "BIGINT"}


def object_id(number: b.Tree) -> b.Tree:
    """Return an integer as an object id, which is unsigned."""
    return b.infix(exp.BitwiseAnd, b.cast(number, "BIGINT"), b.bigint(0xFFFFFFFF))


def _narrowed(call: Call, compute: Callable[..., b.Tree]) -> Value:
    """Compute in the next wider type, so that Spark's error names the type that overflows."""
    wider = _WIDER.get(call.result_oid)
    if wider is None:
        return call.result(compute(*call.trees))
    first, *rest = call.trees
    result = compute(b.cast(first, wider), *rest)
    return call.result(b.cast(result, SPARK_TYPES[call.result_oid]))


def _arithmetic(operator: type[exp.Binary]) -> Handler:
    def handle(call: Call) -> Value:
        return _narrowed(call, lambda left, right: b.infix(operator, left, right))

    return handle


def _remainder(call: Call) -> Value:
    # Spark's integer result types are PostgreSQL's: the wider of the operands'.
    left, right = call.trees
    return call.result(b.infix(exp.Mod, left, right))


def _divide(call: Call) -> Value:
    # DIV truncates and gives BIGINT; the cast brings back the type, and the overflow of MIN / -1.
    left, right = call.trees
    quotient = b.infix(exp.IntDiv, left, right)
    if call.result_oid == oids.INT8:
        return call.result(quotient)
    return call.result(b.cast(quotient, SPARK_TYPES[call.result_oid]))


def _unary_minus(call: Call) -> Value:
    return _narrowed(call, b.negate)


def _absolute(call: Call) -> Value:
    return _narrowed(call, lambda value: b.call("abs", value))


def _identity(call: Call) -> Value:
    return call.result(call.trees[0])


def _bitwise(operator: type[exp.Binary]) -> Handler:
    def handle(call: Call) -> Value:
        left, right = call.trees
        return call.result(b.infix(operator, left, right))

    return handle


def _shift(function: str) -> Handler:
    """Map a shift by as many places as the type has bits, or fewer: of more their lowest bits."""

    def handle(call: Call) -> Value:
        return call.result(b.call(function, *call.trees))

    return handle


def _bitwise_not(call: Call) -> Value:
    return call.result(exp.BitwiseNot(this=b.group(call.trees[0])))


FUNCTIONS: Final[dict[str, Handler]] = {
    **{
        f"{family}{name}": handler
        for family in ("int2", "int4", "int8", "int24", "int42", "int28", "int82", "int48", "int84")
        for name, handler in (
            ("pl", _arithmetic(exp.Add)),
            ("mi", _arithmetic(exp.Sub)),
            ("mul", _arithmetic(exp.Mul)),
            ("div", _divide),
        )
    },
    **{
        f"{family}{name}": handler
        for family in ("int2", "int4", "int8")
        for name, handler in (
            ("mod", _remainder),
            ("um", _unary_minus),
            ("up", _identity),
            ("abs", _absolute),
            ("and", _bitwise(exp.BitwiseAnd)),
            ("or", _bitwise(exp.BitwiseOr)),
            ("xor", _bitwise(exp.BitwiseXor)),
            ("not", _bitwise_not),
        )
    },
    **{
        f"{family}{name}": _shift(function)
        for family in ("int4", "int8")
        for name, function in (("shl", "shiftleft"), ("shr", "shiftright"))
    },
}
