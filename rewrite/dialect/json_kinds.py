"""Functions of jsonb values by their kind: types, lengths, numbers (jsonfuncs.c, jsonb.c)."""

from dataclasses import replace
from typing import Final

from sqlglot import exp

from rewrite.dialect import builders as b
from rewrite.dialect import casts, oids
from rewrite.dialect.calls import Call, Handler
from rewrite.dialect.json_parts import begins, elements, invalid
from rewrite.dialect.text_input import input_value
from rewrite.values import Value

_KINDS: Final = {
    "{": "object",
    "[": "array",
    '"': "string",
    "t": "boolean",
    "f": "boolean",
    "n": "null",
}
"""How values begin that are no numbers."""


def _type(call: Call) -> Value:
    def named(value: b.Tree) -> b.Tree:
        branches = [(begins(value, sign), b.string(kind)) for sign, kind in _KINDS.items()]
        return b.case(*branches, (b.is_not_null(value), b.string("number")))

    return call.result(b.let([call.trees[0]], named))


def _length(call: Call) -> Value:
    def counted(value: b.Tree) -> b.Tree:
        return b.case(
            (begins(value, "["), b.call("size", elements(value))),
            (begins(value, "{"), invalid("cannot get array length of a non-array")),
            (b.is_not_null(value), invalid("cannot get array length of a scalar")),
        )

    return call.result(b.let([call.trees[0]], counted))


def _cast(handler: Handler | None, name: str) -> Handler:
    """Map a cast of a number, from numeric by another cast if it is none to numeric."""

    def handle(call: Call) -> Value:
        def number(value: b.Tree) -> b.Tree:
            null = b.infix(exp.EQ, value, b.string("null"))
            others = [
                (begins(value, sign), invalid(f"cannot cast jsonb {kind} to type {name}"))
                for sign, kind in _KINDS.items()
                if kind != "null"
            ]
            return b.case((null, b.null_of("STRING")), *others, otherwise=value)

        text = Value(b.let([call.trees[0]], number), oids.TEXT)
        numeric = input_value(text, oids.NUMERIC)
        return numeric if handler is None else handler(replace(call, args=(numeric,)))

    return handle


FUNCTIONS: Final[dict[str, Handler]] = {
    "jsonb_typeof": _type,
    "jsonb_array_length": _length,
    "jsonb_numeric": _cast(None, "numeric"),
    "jsonb_int2": _cast(casts.FUNCTIONS["numeric_int2"], "smallint"),
    "jsonb_int4": _cast(casts.FUNCTIONS["numeric_int4"], "integer"),
    "jsonb_int8": _cast(casts.FUNCTIONS["numeric_int8"], "bigint"),
}
