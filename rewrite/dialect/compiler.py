"""Walks PostgreSQL's expression nodes and maps each; every node type it knows is in one table."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sqlglot import exp

from rewrite.dialect import aggregates, oids, window_functions
from rewrite.dialect import builders as b
from rewrite.dialect.arrays import array_of, element_value, subscript
from rewrite.dialect.calls import Call
from rewrite.dialect.comparisons import COMPARISONS, compare, not_distinct
from rewrite.dialect.conditionals import choose, coalesce, extreme, null_if
from rewrite.dialect.constants import decode
from rewrite.dialect.datetimes import sql_value_function
from rewrite.dialect.functions import call_function, procedure
from rewrite.dialect.literals import literal, typed_null
from rewrite.dialect.membership import any_or_all
from rewrite.dialect.numerics import settled
from rewrite.dialect.sort_keys import compile_sort_key
from rewrite.dialect.text_io import input_value, output_text
from rewrite.dialect.type_mapping import storage_type
from rewrite.errors import UnsupportedError
from rewrite.tree import Node
from rewrite.values import Scope, Value

# Fields in which nodes name the collation of what they return.
_COLLATIONS: Final = (
    *("varcollid", "constcollid", "paramcollid", "funccollid", "opcollid", "resultcollid", "casecollid"),
    *("coalescecollid", "minmaxcollid", "array_collid", "aggcollid", "wincollid", "collOid", "refcollid"),
)

_EXTERN_PARAMETER, _SUBLINK_PARAMETER = 0, 2


@dataclass(frozen=True, slots=True)
class Compiler:
    """Compiles the nodes of one expression."""

    scope: Scope
    case_value: Value | None = None
    """What CaseTestExpr stands for."""

    def compile(self, node: Node) -> Value:
        """Compile a node; UnsupportedError naming it when there is no mapping."""
        compile_node = _NODES.get(node.tag)
        if compile_node is None:
            raise UnsupportedError(f"expressions of kind {node.tag} are not supported")
        for name in _COLLATIONS:
            collation = node.get(name, 0)
            if collation and collation not in oids.BYTEWISE_COLLATIONS:
                raise UnsupportedError(f"collation {collation} is not supported")
        return compile_node(self, node)

    def compile_settled(self, node: Node) -> Value:
        """Compile a node to a value in a form that other parts of the rewriter know."""
        return settled(self.compile(node))

    def compile_all(self, nodes: Sequence[Node]) -> list[Value]:
        """Compile several nodes."""
        return [self.compile(node) for node in nodes]

    # -- leaves --------------------------------------------------------------------------------------

    def _var(self, node: Node) -> Value:
        if node.integer("varreturningtype", 0) != 0:
            raise UnsupportedError("OLD and NEW in RETURNING are not supported")
        return self.scope.column(
            node.integer("varno"), node.integer("varattno"), node.integer("varlevelsup")
        )

    def _const(self, node: Node) -> Value:
        type_oid, typmod = node.integer("consttype"), node.integer("consttypmod")
        datum = node["constvalue"]
        if node["constisnull"] or not isinstance(datum, bytes):
            return typed_null(type_oid, typmod)
        return literal(decode(type_oid, datum), type_oid, typmod)

    def _param(self, node: Node) -> Value:
        kind, paramid = node.integer("paramkind"), node.integer("paramid")
        if kind == _EXTERN_PARAMETER:
            return self.scope.parameter(paramid)
        if kind == _SUBLINK_PARAMETER:
            return self.scope.sublink_column(paramid)
        raise UnsupportedError(f"parameters of kind {kind} are not supported")

    def _case_test(self, _node: Node) -> Value:
        if self.case_value is None:
            raise UnsupportedError("CaseTestExpr outside CASE is not supported")
        return self.case_value

    def _sql_value_function(self, node: Node) -> Value:
        return sql_value_function(
            node.integer("op"), node.integer("typmod"), self.scope.constants
        )

    # -- calls ---------------------------------------------------------------------------------------

    def _call(self, oid: int, args: Sequence[Value], result: int, typmod: int, node: Node) -> Value:
        key, signature = procedure(oid)
        return call_function(
            Call(
                key=key,
                signature=signature,
                args=tuple(args),
                result_oid=result,
                result_typmod=typmod,
                collation=node.integer("inputcollid", 0),
                constants=self.scope.constants,
                variadic=bool(node.get("funcvariadic", False)),
            )
        )

    def _function(self, node: Node) -> Value:
        if node["funcretset"]:
            raise UnsupportedError(
                f"set-returning function {procedure(node.integer('funcid'))[1]} is not supported here"
            )
        args = self.compile_all(node.nodes("args"))
        result = self._call(node.integer("funcid"), args, node.integer("funcresulttype"), -1, node)
        return replace(result, type_oid=node.integer("funcresulttype"))

    def _operator(self, node: Node) -> Value:
        args = self.compile_all(node.nodes("args"))
        result_oid = node.integer("opresulttype")
        return self._call(node.integer("opfuncid"), args, result_oid, -1, node)

    def _distinct(self, node: Node) -> Value:
        left, right = self._comparable(node)
        return Value(b.negation(not_distinct(left, right, self.scope.constants)), oids.BOOL)

    def _comparable(self, node: Node) -> list[Value]:
        """Compile the operands of a node that compares them by an equality operator."""
        self._equality(node)
        return self.compile_all(node.nodes("args"))

    def _equality(self, node: Node) -> type[exp.Binary]:
        key, signature = procedure(node.integer("opfuncid"))
        if COMPARISONS.get(key) is not exp.EQ:
            raise UnsupportedError(f"comparing by {signature} is not supported")
        return exp.EQ

    def _null_if(self, node: Node) -> Value:
        left, right = self._comparable(node)
        return null_if(left, right, self.scope.constants)

    def _scalar_array(self, node: Node) -> Value:
        scalar, array = node.nodes("args")
        left = self.compile(scalar)
        oid = node.integer("opfuncid")

        def operate(one: Value, other: Value) -> b.Tree:
            return self._call(oid, [one, other], oids.BOOL, -1, node).sql

        elements = self._elements(array)
        compiled = self.compile(array) if elements is None else None
        return any_or_all(
            left,
            elements,
            compiled,
            operate,
            COMPARISONS.get(procedure(oid)[0]),
            self.scope.constants,
            any_=bool(node["useOr"]),
        )

    def _elements(self, array: Node) -> list[Value] | None:
        """Return the elements of an array that is written out, a constant or a parameter."""
        while array.tag == "RELABELTYPE":
            array = array.node("arg")
        if array.tag == "ARRAYEXPR" and not array["multidims"]:
            return self.compile_all(array.nodes("elements"))
        if array.tag == "CONST" and isinstance(datum := array["constvalue"], bytes):
            element = oids.ELEMENTS.get(array.integer("consttype"))
            items = decode(array.integer("consttype"), datum)
            if element is not None and isinstance(items, list) and not array["constisnull"]:
                return [literal(item, element) for item in items]
        if array.tag == "PARAM":
            value = self.compile(array)
            element = oids.ELEMENTS.get(value.type_oid)
            if element is not None and value.constant and isinstance(value.constant.value, list):
                return [literal(item, element) for item in value.constant.value]
        return None

    # -- coercions -----------------------------------------------------------------------------------

    def _relabel(self, node: Node) -> Value:
        value = self.compile(node.node("arg"))
        target, typmod = node.integer("resulttype"), node.integer("resulttypmod")
        return relabelled(value, target, typmod)

    def _via_text(self, node: Node) -> Value:
        value = self.compile(node.node("arg"))
        target = node.integer("resulttype")
        if target in oids.STRINGS - {oids.CHAR, oids.NAME}:
            return Value(output_text(value, self.scope.constants), target)
        if value.type_oid not in oids.STRINGS:
            source, name = oids.type_name(value.type_oid), oids.type_name(target)
            raise UnsupportedError(f"casting {source} to {name} is not supported")
        return input_value(value, target)

    def _array_coercion(self, node: Node) -> Value:
        array = self.compile(node.node("arg"))
        target = node.integer("resulttype")
        source_element, target_element = oids.ELEMENTS.get(array.type_oid), oids.ELEMENTS.get(target)
        if source_element is None or target_element is None:
            raise UnsupportedError(f"casting arrays to {oids.type_name(target)} is not supported")

        def element(name: str) -> b.Tree:
            item = element_value(b.variable(name), source_element)
            inner = replace(self, case_value=item)
            converted = array_of([inner.compile(node.node("elemexpr"))], target)
            body = b.call("element_at", converted.sql, b.integer(1))
            return b.call("transform", array.sql, b.lambda_function(body, name))

        return Value(b.fresh_variable(element), target, node.integer("resulttypmod", -1))

    def _collate(self, node: Node) -> Value:
        return self.compile(node.node("arg"))

    # -- conditions ----------------------------------------------------------------------------------

    def _boolean(self, node: Node) -> Value:
        operands = [value.sql for value in self.compile_all(node.nodes("args"))]
        operator = node.text("boolop")
        if operator == "not":
            return Value(b.negation(operands[0]), oids.BOOL)
        return Value(b.both(*operands) if operator == "and" else b.either(*operands), oids.BOOL)

    def _null_test(self, node: Node) -> Value:
        if node["argisrow"]:
            raise UnsupportedError("IS NULL of rows is not supported")
        tested = b.is_null(self.compile(node.node("arg")).sql)
        return Value(b.negation(tested) if node.integer("nulltesttype") else tested, oids.BOOL)

    def _boolean_test(self, node: Node) -> Value:
        value = self.compile(node.node("arg")).sql
        kind = node.integer("booltesttype")
        expected = (b.TRUE, b.FALSE, b.NULL)[kind // 2]
        tested = b.is_null(value) if kind >= 4 else b.infix(exp.NullSafeEQ, value, expected)
        return Value(b.negation(tested) if kind % 2 else tested, oids.BOOL)

    def _case(self, node: Node) -> Value:
        argument = node.optional("arg")
        arms = node.nodes("args")

        def branches(compiler: "Compiler") -> Value:
            compiled = [
                (compiler.compile(arm.node("expr")).sql, self.compile(arm.node("result"))) for arm in arms
            ]
            default = node.optional("defresult")
            otherwise = self.compile(default) if default else typed_null(node.integer("casetype"))
            return choose(compiled, otherwise)

        if argument is None:
            return branches(self)
        return branches(replace(self, case_value=self.compile(argument)))

    def _coalesce(self, node: Node) -> Value:
        return coalesce(self.compile_all(node.nodes("args")))

    def _extreme(self, node: Node) -> Value:
        return extreme(self.compile_all(node.nodes("args")), greatest=node.integer("op") == 0)

    def _row_comparison(self, node: Node) -> Value:
        """Map ``(a, b) < (c, d)``: the first pair that is unequal decides, or is NULL."""
        lefts, rights = (_list_items(node, name) for name in ("largs", "rargs"))
        pairs = list(zip(self.compile_all(lefts), self.compile_all(rights), strict=True))
        operators = {1: exp.LT, 2: exp.LTE, 4: exp.GTE, 5: exp.GT}
        operator = operators.get(node.integer("cmptype" if "cmptype" in node.fields else "rctype"))
        if operator is None:
            raise UnsupportedError("this comparison of rows is not supported")
        strict_operator = exp.LT if operator in (exp.LT, exp.LTE) else exp.GT
        constants = self.scope.constants
        branches: list[tuple[b.Tree, b.Tree]] = []
        for left, right in pairs[:-1]:
            branches.append((b.either(b.is_null(left.sql), b.is_null(right.sql)), b.null_of("BOOLEAN")))
            unequal = compare(exp.NEQ, left, right, constants)
            branches.append((unequal, compare(strict_operator, left, right, constants)))
        last = compare(operator, *pairs[-1], constants)
        return Value(b.case(*branches, otherwise=last), oids.BOOL)

    # -- arrays --------------------------------------------------------------------------------------

    def _array(self, node: Node) -> Value:
        if node["multidims"]:
            raise UnsupportedError("arrays of more than one dimension are not supported")
        return array_of(self.compile_all(node.nodes("elements")), node.integer("array_typeid"))

    def _subscript(self, node: Node) -> Value:
        indexes = node.nodes("refupperindexpr")
        container = node.integer("refcontainertype")
        element = oids.ELEMENTS.get(container)
        if len(indexes) != 1 or node.get("reflowerindexpr") or node.get("refassgnexpr") or element is None:
            raise UnsupportedError("this form of subscripting is not supported")
        return subscript(self.compile(node.node("refexpr")), self.compile(indexes[0]), element)

    # -- queries, aggregates, windows ----------------------------------------------------------------

    def _sublink(self, node: Node) -> Value:
        return self.scope.sublink(node, self.compile_settled)

    def _grouping(self, node: Node) -> Value:
        return self.scope.grouping(node)

    def _aggregate(self, node: Node) -> Value:
        signature = procedure(node.integer("aggfnoid"))[1]
        if node.integer("agglevelsup"):
            raise UnsupportedError("aggregates of an outer query are not supported")
        if node.get("aggdirectargs") or node["aggvariadic"] or node.text("aggkind") not in ("n", None):
            raise UnsupportedError(f"aggregate function {signature} is not supported")
        entries = node.nodes("args")
        values = {entry.integer("ressortgroupref"): self.compile(entry.node("expr")) for entry in entries}
        args = [self.compile(entry.node("expr")) for entry in entries if not entry["resjunk"]]
        order = [
            compile_sort_key(
                values[clause.integer("tleSortGroupRef")],
                clause.integer("sortop"),
                nulls_first=bool(clause["nulls_first"]),
            )
            for clause in node.nodes("aggorder")
        ]
        return self._aggregation(
            aggregates.Aggregation(
                signature=signature,
                args=tuple(args),
                result_oid=node.integer("aggtype"),
                distinct=bool(node.get("aggdistinct")),
                order_by=tuple(order),
                condition=self._filter(node),
            )
        )

    def _filter(self, node: Node) -> b.Tree | None:
        condition = node.optional("aggfilter")
        return self.compile(condition).sql if condition is not None else None

    def _aggregation(self, call: aggregates.Aggregation) -> Value:
        handler = aggregates.FUNCTIONS.get(call.signature)
        if handler is None:
            raise UnsupportedError(f"aggregate function {call.signature} is not supported")
        return replace(handler(call), type_oid=call.result_oid)

    def _window(self, node: Node) -> Value:
        signature = procedure(node.integer("winfnoid"))[1]
        args = tuple(self.compile_settled(arg) for arg in node.nodes("args"))
        window = self.scope.window(node.integer("winref"))
        if node["winagg"]:
            return self._aggregation(
                aggregates.Aggregation(
                    signature=signature,
                    args=args,
                    result_oid=node.integer("wintype"),
                    condition=self._filter(node),
                    window=window,
                )
            )
        handler = window_functions.FUNCTIONS.get(signature)
        if handler is None:
            raise UnsupportedError(f"window function {signature} is not supported")
        call = window_functions.WindowCall(signature, args, node.integer("wintype"), window)
        return replace(handler(call), type_oid=call.result_oid)


def _list_items(node: Node, name: str) -> list[Node]:
    value = node[name]
    if isinstance(value, list):
        return [item for item in value if isinstance(item, Node)]
    raise UnsupportedError("this comparison of rows is not supported")


def relabelled(value: Value, type_oid: int, typmod: int) -> Value:
    """Return a value as another type of the same representation in PostgreSQL."""
    source, target = storage_type(value.type_oid, -1), storage_type(type_oid, -1)
    sql = value.sql
    if source == "INT" and type_oid in oids.OBJECT_IDS:
        # Object ids are unsigned.
        sql = b.infix(exp.BitwiseAnd, b.cast(sql, "BIGINT"), b.bigint(0xFFFFFFFF))
    elif source != target:
        names = oids.type_name(value.type_oid), oids.type_name(type_oid)
        raise UnsupportedError(f"casting {names[0]} to {names[1]} is not supported")
    return replace(value, sql=sql, type_oid=type_oid, typmod=typmod)


_NODES: Final[dict[str, Callable[[Compiler, Node], Value]]] = {
    "VAR": Compiler._var,
    "CONST": Compiler._const,
    "PARAM": Compiler._param,
    "CASETESTEXPR": Compiler._case_test,
    "SQLVALUEFUNCTION": Compiler._sql_value_function,
    "FUNCEXPR": Compiler._function,
    "OPEXPR": Compiler._operator,
    "DISTINCTEXPR": Compiler._distinct,
    "NULLIFEXPR": Compiler._null_if,
    "SCALARARRAYOPEXPR": Compiler._scalar_array,
    "RELABELTYPE": Compiler._relabel,
    "COERCEVIAIO": Compiler._via_text,
    "ARRAYCOERCEEXPR": Compiler._array_coercion,
    "COLLATEEXPR": Compiler._collate,
    "BOOLEXPR": Compiler._boolean,
    "NULLTEST": Compiler._null_test,
    "BOOLEANTEST": Compiler._boolean_test,
    "CASEEXPR": Compiler._case,
    "COALESCEEXPR": Compiler._coalesce,
    "MINMAXEXPR": Compiler._extreme,
    "ROWCOMPAREEXPR": Compiler._row_comparison,
    "ARRAYEXPR": Compiler._array,
    "SUBSCRIPTINGREF": Compiler._subscript,
    "SUBLINK": Compiler._sublink,
    "GROUPINGFUNC": Compiler._grouping,
    "AGGREF": Compiler._aggregate,
    "WINDOWFUNC": Compiler._window,
}
