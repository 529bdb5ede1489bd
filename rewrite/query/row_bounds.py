"""Proofs of how many rows a query can yield at most.

A key that must equal constants identifies at most one row per combination of constants, a key that
must equal columns of other relations at most one row per combination of theirs.
"""

from dataclasses import dataclass

from catalog.pg.nodes import ParamKind
from rewrite.context import RewriteContext
from rewrite.dialect import oids
from rewrite.dialect.constants import decode
from rewrite.query.constant_values import is_constant
from rewrite.tree import Node

# pg_amop: the "=" of every btree operator family over types that can be a key.
EQUALITIES = frozenset(
    {
        *(
            15,
            91,
            92,
            93,
            94,
            96,
            98,
            254,
            260,
            410,
            416,
            532,
            533,
            607,
            620,
            670,
            1054,
            1093,
            1108,
        ),
        *(1120, 1130, 1320, 1330, 1752, 1862, 1868, 1955, 2060, 2347, 2360, 2373, 2386, 2536, 2542),
        *(2972,),
    }
)


_MANY = 12


@dataclass(frozen=True, slots=True)
class Factor:
    """A relation among those whose rows are combined."""

    varno: int
    """0 for a subtree whose columns are not looked at."""
    bound: int | None
    key: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Equality:
    """``column = other``, where other has so many values and depends on these relations."""

    varno: int
    attno: int
    values: int
    depends: frozenset[int]


def product(
    factors: list[Factor],
    known: list[Node],
    context: RewriteContext,
    given: frozenset[int] = frozenset(),
) -> int | None:
    """Return a bound of the rows of combined relations of which the known conditions hold.

    With ``given`` it is the bound per combination of rows of those other relations.
    """
    equalities = [found for qual in known for found in _equalities(qual, context)]
    # A chain of foreign keys is short only when counted from its end: try every beginning.
    starts: list[Factor | None] = [None, *factors] if len(factors) <= _MANY else [None]
    bounds = [_combined(factors, equalities, given, start) for start in starts]
    return min((bound for bound in bounds if bound is not None), default=None)


def _combined(
    factors: list[Factor],
    equalities: list[_Equality],
    given: frozenset[int],
    start: Factor | None,
) -> int | None:
    bound = 1
    done = set(given)
    rest = list(factors)
    while rest:
        ranked = ((_rank(_factor(factor, equalities, done)), factor) for factor in rest)
        best = start or min(ranked, key=lambda pair: pair[0])[1]
        start = None
        rows = _factor(best, equalities, done)
        if rows is None:
            return None
        bound *= rows
        done.add(best.varno)
        rest.remove(best)
    return bound


def _rank(rows: int | None) -> tuple[bool, int]:
    return rows is None, rows or 0


def _factor(factor: Factor, equalities: list[_Equality], done: set[int]) -> int | None:
    """Return how many rows of a relation can go with one combination of those already counted."""
    if not factor.key:
        return factor.bound
    rows = 1
    for attno in factor.key:
        values = [
            equality.values
            for equality in equalities
            if (equality.varno, equality.attno) == (factor.varno, attno)
            and equality.depends <= done
        ]
        if not values:
            return factor.bound
        rows *= min(values)
    return rows if factor.bound is None else min(rows, factor.bound)


def _equalities(qual: Node, context: RewriteContext) -> list[_Equality]:
    if is_equality(qual):
        left, right = qual.nodes("args")
        return [
            _Equality(*column, 1, depends)
            for one, other in ((left, right), (right, left))
            if (column := column_of(one)) and (depends := _depends(other)) is not None
        ]
    if qual.tag == "SCALARARRAYOPEXPR" and qual["useOr"] and qual["opno"] in EQUALITIES:
        left, right = qual.nodes("args")
        column, values = column_of(left), _elements(right, context)
        if column and values is not None:
            return [_Equality(*column, values, frozenset())]
    return []


def is_equality(qual: Node) -> bool:
    """Tell whether a condition is ``=`` of a type that can be a key."""
    return qual.tag == "OPEXPR" and qual["opno"] in EQUALITIES


def column_of(node: Node) -> tuple[int, int] | None:
    """Return range table index and attribute number of a column of this query, or None.

    Not of one taken as character(n), where different values of the column become equal.
    """
    while node.tag == "RELABELTYPE" and node["resulttype"] != oids.BPCHAR:
        node = node.node("arg")
    if node.tag == "VAR" and node["varlevelsup"] == 0:
        return node.integer("varno"), node.integer("varattno")
    return None


def _depends(node: Node) -> frozenset[int] | None:
    """Return the relations a value depends on; None where that cannot be told."""
    if is_constant(node):
        return frozenset()
    column = column_of(node)
    if column is not None:
        return frozenset({column[0]})
    return None


def _elements(node: Node, context: RewriteContext) -> int | None:
    if node.tag == "ARRAYEXPR" and not node["multidims"]:
        constants = [is_constant(element) for element in node.nodes("elements")]
        return len(constants) if all(constants) else None
    datum = node["constvalue"] if node.tag == "CONST" else None
    if isinstance(datum, bytes):
        elements = decode(node.integer("consttype"), datum)
        return len(elements) if isinstance(elements, list) else None
    if node.tag == "PARAM" and node["paramkind"] == ParamKind.EXTERN:
        value = context.parameters[node.integer("paramid") - 1].value
        return len(value) if isinstance(value, list) else None
    return None
