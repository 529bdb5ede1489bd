"""Columns, constants, parameters and what the session answers without arguments."""

from typing import Final

from catalog.pg.nodes import ParamKind
from rewrite.dialect.compiler import Compiler, NodeHandler
from rewrite.dialect.constants import decode
from rewrite.dialect.datetimes import sql_value_function
from rewrite.dialect.literals import literal, typed_null
from rewrite.errors import UnsupportedError
from rewrite.tree import Node
from rewrite.values import Value

_EXTERN_PARAMETER, _SUBLINK_PARAMETER = ParamKind.EXTERN, ParamKind.SUBLINK


def _var(compiler: Compiler, node: Node) -> Value:
    if node.integer("varreturningtype", 0) != 0:
        raise UnsupportedError("OLD and NEW in RETURNING are not supported")
    return compiler.scope.column(
        node.integer("varno"), node.integer("varattno"), node.integer("varlevelsup")
    )


def _const(_compiler: Compiler, node: Node) -> Value:
    type_oid, typmod = node.integer("consttype"), node.integer("consttypmod")
    datum = node["constvalue"]
    if node["constisnull"] or not isinstance(datum, bytes):
        return typed_null(type_oid, typmod)
    return literal(decode(type_oid, datum), type_oid, typmod)


def _param(compiler: Compiler, node: Node) -> Value:
    kind, paramid = node.integer("paramkind"), node.integer("paramid")
    if kind == _EXTERN_PARAMETER:
        return compiler.scope.parameter(paramid)
    if kind == _SUBLINK_PARAMETER:
        return compiler.scope.sublink_column(paramid)
    raise UnsupportedError(f"parameters of kind {kind} are not supported")


def _case_test(compiler: Compiler, _node: Node) -> Value:
    if compiler.case_value is None:
        raise UnsupportedError("CaseTestExpr outside CASE is not supported")
    return compiler.case_value


def _sql_value_function(compiler: Compiler, node: Node) -> Value:
    return sql_value_function(node.integer("op"), node.integer("typmod"), compiler.scope.constants)


NODES: Final[dict[str, NodeHandler]] = {
    "VAR": _var,
    "CONST": _const,
    "PARAM": _param,
    "CASETESTEXPR": _case_test,
    "SQLVALUEFUNCTION": _sql_value_function,
}
