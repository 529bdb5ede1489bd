"""Building blocks of Spark SQL trees, with the traps of the generator and of Spark's parser closed.

sqlglot prints operators without parentheses of its own, and Spark replaces ``${name}`` inside
string literals; both are dealt with here and nowhere else. Nodes are shared between trees and never
changed.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from functools import lru_cache
from typing import Final, TypeAlias
from typing import cast as cast_type

from sqlglot import exp

Tree: TypeAlias = exp.Expression

_ATOMS = (
    exp.Column,
    exp.Literal,
    exp.Anonymous,
    exp.Cast,
    exp.Paren,
    exp.Null,
    exp.Boolean,
    exp.Dot,
    exp.Identifier,
    exp.Subquery,
    exp.Window,
    exp.Filter,
    exp.Case,
)

_INT_MIN, _INT_MAX = -(2**31), 2**31 - 1

TRUE: Tree = exp.Boolean(this=True)
FALSE: Tree = exp.Boolean(this=False)
NULL: Tree = exp.Null()


def call(name: str, *arguments: Tree) -> Tree:
    """Return a call of a Spark function, printed exactly as named."""
    return exp.Anonymous(this=name, expressions=list(arguments))


def keyword(word: str) -> Tree:
    """Return a bare word, such as the unit of ``timestampdiff``."""
    return exp.Var(this=word)


@lru_cache(maxsize=512)
def data_type(text: str) -> exp.DataType:
    """Return a Spark type as a tree."""
    return exp.DataType.build(text, dialect="spark")


def cast(value: Tree, spark_type: str) -> Tree:
    """Return ``CAST(value AS type)``; fails at run time where the value does not fit (ANSI)."""
    return exp.Cast(this=value, to=data_type(spark_type))


def decimal_type(precision: int, scale: int) -> str:
    """Return the name of a Spark DECIMAL."""
    return f"DECIMAL({precision}, {scale})"


def null_of(spark_type: str) -> Tree:
    """Return NULL of a Spark type."""
    return cast(NULL, spark_type)


def is_null_literal(value: Tree) -> bool:
    """Tell whether a tree is NULL or a cast of it."""
    while isinstance(value, exp.Cast | exp.Paren):
        value = value.this
    return isinstance(value, exp.Null)


def string(text: str) -> Tree:
    """Return a string literal; ``${`` is taken apart because Spark substitutes variables in it.

    >>> string("a${b}").sql("spark")
    "CONCAT('a$', '{b}')"
    """
    parts = text.split("${")
    if len(parts) == 1:
        return exp.Literal.string(text)
    pieces = [f"{part}$" if i == 0 else f"{{{part}$" for i, part in enumerate(parts[:-1])]
    pieces.append("{" + parts[-1])
    return call("concat", *(exp.Literal.string(piece) for piece in pieces))


def integer(value: int) -> Tree:
    """Return an INT literal."""
    if value < 0:
        number = exp.Paren(this=exp.Neg(this=exp.Literal.number(-value)))
        return number if value > _INT_MIN else cast(number, "INT")
    if value > _INT_MAX:
        raise ValueError(value)
    return exp.Literal.number(value)


def bigint(value: int) -> Tree:
    """Return a BIGINT literal."""
    if _INT_MIN < value <= _INT_MAX:
        return cast(integer(value), "BIGINT")
    if value == -(2**63):
        return cast(string(str(value)), "BIGINT")
    if value < 0:
        return cast(exp.Neg(this=exp.Literal.number(-value)), "BIGINT")
    return cast(exp.Literal.number(value), "BIGINT")


def double(value: float) -> Tree:
    """Return a DOUBLE literal of a finite number.

    >>> double(-0.5).sql("spark")
    '(-0.5D)'
    """
    number = exp.Literal.number(f"{abs(value)!r}D")
    return number if value >= 0 else exp.Paren(this=exp.Neg(this=number))


def group(value: Tree) -> Tree:
    """Return the tree in parentheses unless it needs none."""
    return value if isinstance(value, _ATOMS) else exp.Paren(this=value)


def infix(operator: type[exp.Binary], left: Tree, right: Tree) -> Tree:
    """Return ``left operator right`` with the parentheses that keep the tree's shape."""
    # sqlglot declares Binary a mere trait of its operators.
    return cast_type("Tree", operator(this=group(left), expression=group(right)))


def divide(left: Tree, right: Tree) -> Tree:
    """Return Spark's ``/``, which fails for a zero divisor; operands must not be integers."""
    return exp.Div(this=group(left), expression=group(right), typed=False, safe=True)


def negate(value: Tree) -> Tree:
    """Return ``-value``."""
    return exp.Neg(this=group(value))


def both(*conditions: Tree) -> Tree:
    """Return the conjunction of conditions."""
    return chain(exp.And, [group(condition) for condition in conditions])


def either(*conditions: Tree) -> Tree:
    """Return the disjunction of conditions."""
    return chain(exp.Or, [group(condition) for condition in conditions])


def chain(connector: type[exp.Connector], operands: Sequence[Tree]) -> Tree:
    """Return operands, one at least, between which AND or OR stands.

    The tree has as few levels as it can have: hundreds of conditions are no deep nesting.
    """
    level = list(operands)
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2], strict=False)
        odd = level[-1:] if len(level) % 2 else []
        level = [cast_type("Tree", connector(this=one, expression=two)) for one, two in pairs] + odd
    return level[0]


def negation(condition: Tree) -> Tree:
    """Return ``NOT condition``."""
    return exp.Not(this=group(condition))


def is_null(value: Tree) -> Tree:
    """Return ``value IS NULL``."""
    return exp.Is(this=group(value), expression=exp.Null())


def is_not_null(value: Tree) -> Tree:
    """Return ``value IS NOT NULL``."""
    return negation(is_null(value))


def case(*branches: tuple[Tree, Tree], otherwise: Tree | None = None) -> Tree:
    """Return a searched CASE; only the branch taken is evaluated."""
    arms = [exp.If(this=condition, true=result) for condition, result in branches]
    return exp.Case(ifs=arms, default=otherwise)


def field(value: Tree, name: str) -> Tree:
    """Return a field of a struct."""
    return exp.Dot(this=group(value), expression=exp.to_identifier(name, quoted=True))


def struct(**fields: Tree) -> Tree:
    """Return a struct of named fields."""
    arguments: list[Tree] = []
    for name, value in fields.items():
        arguments += [exp.Literal.string(name), value]
    return call("named_struct", *arguments)


def array(*elements: Tree) -> Tree:
    """Return an array of elements."""
    return call("array", *elements)


def lambda_function(body: Tree, *names: str) -> Tree:
    """Return ``(names) -> body``."""
    return exp.Lambda(this=body, expressions=[exp.to_identifier(name) for name in names])


def variable(name: str) -> Tree:
    """Return a reference to a lambda variable."""
    return exp.column(name)


_depth: ContextVar[int] = ContextVar("let_depth", default=0)


_REPEATABLE: Final = "repeatable"


def repeatable(value: Tree) -> Tree:
    """Return a tree marked as one that Spark evaluates once, however often it is written."""
    marked = value.copy()
    marked.meta[_REPEATABLE] = True
    return marked


_CERTAIN: Final = "certain"


def certain(condition: Tree) -> Tree:
    """Return a condition on a column marked as one that fails for no value of it."""
    marked = condition.copy()
    marked.meta[_CERTAIN] = True
    return marked


def is_certain(condition: Tree) -> bool:
    """Tell whether a condition is marked as one that fails for no value of a column."""
    return bool(condition.meta.get(_CERTAIN))


def is_simple(value: Tree) -> bool:
    """Tell whether a tree is cheap enough to be written twice."""
    while isinstance(value, exp.Cast | exp.Paren | exp.Neg):
        value = value.this
    if value.meta.get(_REPEATABLE):
        return True
    if isinstance(value, exp.Dot):
        return is_simple(value.this)
    return isinstance(value, exp.Column | exp.Literal | exp.Null | exp.Boolean)


def fresh_variable(build: Callable[[str], Tree]) -> Tree:
    """Call ``build`` with the name of a lambda variable no enclosing lambda uses."""
    depth = _depth.get() + 1
    token = _depth.set(depth)
    try:
        return build(f"v{depth}")
    finally:
        _depth.reset(token)


def let(values: Sequence[Tree], body: Callable[..., Tree]) -> Tree:
    """Return ``body(*values)`` with each value evaluated once.

    Spark has no LET; a lambda over an array of one element is one. Values that are columns or
    literals are used as they are, so that simple expressions stay simple (and filters on them
    pushable).
    """
    if all(is_simple(value) for value in values):
        return body(*values)

    costly = [value for value in values if not is_simple(value)]

    def build(name: str) -> Tree:
        if len(costly) == 1:
            argument, bound = costly[0], [variable(name)]
        else:
            fields = {f"f{number}": value for number, value in enumerate(costly, 1)}
            argument, bound = struct(**fields), [field(variable(name), label) for label in fields]
        rest = iter(bound)
        result = body(*(value if is_simple(value) else next(rest) for value in values))
        return bound_once(argument, name, result)

    return fresh_variable(build)


def bound_once(value: Tree, name: str, body: Tree) -> Tree:
    """Return ``body``, in which the variable ``name`` is a value that is evaluated once."""
    found = call("transform", array(value), lambda_function(body, name))
    return call("element_at", found, integer(1))


def in_let(tree: Tree, change: Callable[[Tree], Tree | None]) -> Tree | None:
    """Return a tree of :func:`let` with its body changed, the innermost one if lets are nested.

    Args:
        tree: Any tree.
        change: Returns what takes the place of the body, or None. It must not bind variables.

    Returns:
        None if the tree is no ``let`` or its body is not changed.
    """
    if not (isinstance(tree, exp.Anonymous) and tree.name == "element_at"):
        return None
    found = tree.expressions[0]
    if not (isinstance(found, exp.Anonymous) and found.name == "transform"):
        return None
    values, function = found.expressions
    if not (isinstance(values, exp.Anonymous) and values.name == "array"):
        return None
    changed = in_let(function.this, change) or change(function.this)
    if changed is None:
        return None
    return bound_once(values.expressions[0], function.expressions[0].name, changed)


def raise_error(
    sqlstate: str,
    message: str | Tree,
    detail: str | None = None,
    *,
    hint: Tree | None = None,
    fields: Mapping[str, str] | None = None,
) -> Tree:
    r"""Return an expression that fails with this SQLSTATE when evaluated.

    The error's text is JSON with ``sqlstate``, ``message`` and maybe ``detail`` or ``hint``, which
    the gateway takes apart. A message that is computed may have a hint that is, or is NULL; one
    that is not may have further ``fields``, by their letters.

    >>> raise_error("22012", "division by zero").sql("spark")
    'RAISE_ERROR(\'{"sqlstate": "22012", "message": "division by zero"}\')'
    """
    if isinstance(message, str):
        told: dict[str, object] = {"sqlstate": sqlstate, "message": message}
        if detail is not None:
            told["detail"] = detail
        if fields is not None:
            told["fields"] = fields
        return call("raise_error", string(json.dumps(told)))
    computed = {"sqlstate": string(sqlstate), "message": message}
    if hint is not None:
        computed["hint"] = hint
    return call("raise_error", call("to_json", struct(**computed)))


def can_raise(tree: Tree) -> bool:
    """Tell whether there is an expression of :func:`raise_error` in a tree."""
    return any(found.name.lower() == "raise_error" for found in tree.find_all(exp.Anonymous))


def checked(value: Tree, *failures: tuple[Tree, Tree]) -> Tree:
    """Return ``value``, or the first failure whose condition is true."""
    return case(*failures, otherwise=value)
