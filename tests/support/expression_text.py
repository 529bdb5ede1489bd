"""Writes simple analysed expressions as SQL again, to look rows up by them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

import psycopg

from rewrite.dialect.constants import decode
from rewrite.needs.results import Fixed, Need
from rewrite.tree import Node

_TESTS = {
    0: "IS NULL",
    1: "IS NOT NULL",
}
_BOOLEAN_TESTS = ("TRUE", "NOT TRUE", "FALSE", "NOT FALSE", "UNKNOWN", "NOT UNKNOWN")
_INTEGERS = {20, 21, 23, 26, 2205}
_CURRENT_DATE = 0
_KEYWORDS = {"numeric": '"numeric"'}
"""Functions whose names are those of types, too."""
_NAME_COLUMNS: Final = {
    "pg_collation": "collname",
    "pg_operator": "oprname",
    "pg_proc": "proname",
    "pg_type": "typname",
}

Names = Callable[[str, int], str]
"""Tells the name of what a table of pg_catalog has an OID of."""


def names_in(connection: psycopg.Connection) -> Names:
    """Return what tells the names in a database."""

    @cache
    def name(catalog: str, oid: int) -> str:
        query = f"SELECT {_NAME_COLUMNS[catalog]} FROM pg_catalog.{catalog} WHERE oid = {oid}"
        return connection.execute(query).fetchone()[0]

    return name


@dataclass
class ExpressionText:
    """Expressions with the names that operators, functions and types have in one database."""

    name: Names

    def need(self, need: Need, column: Callable[[int], str]) -> str:
        """Return the condition that rows of a need satisfy."""
        parts = [self.expression(condition, column) for condition in need.conditions]
        parts += [self.fixed(fixed, column) for fixed in need.fixed]
        return "(" + (" AND ".join(parts) or "true") + ")"

    def fixed(self, fixed: Fixed, column: Callable[[int], str]) -> str:
        """Return the condition that columns have one of some rows of values."""
        rows = []
        for row in fixed.rows:
            equal = "{} = ANY ({})" if fixed.arrays else "{} = {}"
            pairs = zip(fixed.columns, row, strict=True)
            rows.append(
                " AND ".join(equal.format(column(c), self.expression(v, column)) for c, v in pairs)
            )
        return "(" + (" OR ".join(f"({row})" for row in rows) or "false") + ")"

    def operator(self, oid: int) -> str:
        """Return the name of an operator."""
        return self.name("pg_operator", oid)

    def expression(  # noqa: C901, PLR0911, PLR0912 - a case for each node
        self, node: Node, column: Callable[[int], str]
    ) -> str:
        """Return an expression as SQL; NotImplementedError for what no test uses."""
        parts = (
            [self.expression(part, column) for part in node.nodes("args")]
            if (isinstance(node.get("args"), list))
            else []
        )
        match node.tag:
            case "VAR":
                return column(node.integer("varattno"))
            case "PARAM":
                return f"${node['paramid']}"
            case "CONST":
                return self._constant(node)
            case "OPEXPR" | "DISTINCTEXPR":
                name = "IS DISTINCT FROM"
                if node.tag == "OPEXPR":
                    name = self.name("pg_operator", node.integer("opno"))
                return f"({f' {name} '.join(parts)})" if len(parts) == 2 else f"({name} {parts[0]})"
            case "SCALARARRAYOPEXPR":
                name = self.name("pg_operator", node.integer("opno"))
                return f"({parts[0]} {name} {'ANY' if node['useOr'] else 'ALL'} ({parts[1]}))"
            case "BOOLEXPR":
                if node["boolop"] == "not":
                    return f"(NOT {parts[0]})"
                return "(" + f" {str(node['boolop']).upper()} ".join(parts) + ")"
            case "NULLTEST":
                test = _TESTS[node.integer("nulltesttype")]
                return f"({self.expression(node.node('arg'), column)} {test})"
            case "BOOLEANTEST":
                test = _BOOLEAN_TESTS[node.integer("booltesttype")]
                return f"({self.expression(node.node('arg'), column)} IS {test})"
            case "COALESCEEXPR":
                return f"coalesce({', '.join(parts)})"
            case "RELABELTYPE":
                return self.expression(node.node("arg"), column)
            case "COLLATEEXPR":
                name = self.name("pg_collation", node.integer("collOid"))
                return f'{self.expression(node.node("arg"), column)} COLLATE "{name}"'
            case "ARRAYEXPR":
                elements = [self.expression(part, column) for part in node.nodes("elements")]
                return f"ARRAY[{', '.join(elements)}]"
            case "ARRAYCOERCEEXPR":
                array = self.expression(node.node("arg"), column)
                return f"({array})::{self._type(node.integer('resulttype'))}"
            case "FUNCEXPR":
                name = self.name("pg_proc", node.integer("funcid"))
                return f"{_KEYWORDS.get(name, name)}({', '.join(parts)})"
            case "SQLVALUEFUNCTION" if node["op"] == _CURRENT_DATE:
                return "CURRENT_DATE"
        raise NotImplementedError(node.tag)

    def _constant(self, node: Node) -> str:
        kind = node.integer("consttype")
        value = node["constvalue"] if not node.get("constisnull") else None
        if not isinstance(value, bytes):
            return f"NULL::{self._type(kind)}" if kind else "NULL"
        if kind in _INTEGERS:
            length = node.integer("constlen")
            number = int.from_bytes(value[:length], "little", signed=True)
            text = str(number) if number >= 0 else f"({number})"
            return text if kind == 23 else f"{text}::{self._type(kind)}"
        if kind == 1700:
            return f"'{decode(kind, value):f}'::numeric"
        if kind == 16:
            return "true" if value[0] else "false"
        if kind in {25, 1043}:
            return "'" + value[4:].decode().replace("'", "''") + "'"
        raise NotImplementedError(f"a constant of type {kind}")

    def _type(self, oid: int) -> str:
        return self.name("pg_type", oid)
