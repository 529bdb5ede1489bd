"""Values of an INSERT that tell which partition each of its rows goes to, where they are plain."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import Final

from catalog.pg.nodes import ParamKind, RTEKind
from rewrite.context import ParameterValue
from rewrite.dialect import oids
from rewrite.dialect.constants import decode
from rewrite.key_constants import UnknownValueError, constant
from rewrite.key_types import COMPARED
from rewrite.query.range_table import VALUES
from rewrite.tree import Node, walk

Routed = str | int | None
"""A value as text, the number of a parameter, or NULL."""

_EXTERNAL: Final = ParamKind.EXTERN
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAYS: Final = range(-719_162, 2_932_896)
"""Days since 1970 that Python has dates for."""
_DAY: Final = 86_400_000_000


def routed_rows(
    query: Node, columns: Collection[int], bind: Callable[[], tuple[ParameterValue, ...]]
) -> list[Mapping[int, Routed]] | None:
    """Return what each row of an INSERT has in some columns, by attribute number.

    None where not all of it is known before PostgreSQL computes the rows.

    Args:
        query: The INSERT.
        columns: Attribute numbers.
        bind: Tells the values of parameters, where they become of other types.
    """
    bound = cache(bind)
    targets = {
        target.integer("resno"): target.node("expr")
        for target in query.nodes("targetList")
        if not target["resjunk"]
    }
    lists = [entry for entry in query.nodes("rtable") if entry["rtekind"] == VALUES]
    if len(lists) > 1 or query.items("cteList") or _reads(query):
        return None
    rows = lists[0].items("values_lists") if lists else [[]]
    try:
        return [
            {number: _routed(targets.get(number), row, bound) for number in columns}
            for row in rows
            if isinstance(row, list)
        ]
    except UnknownValueError:
        return None


def _reads(query: Node) -> bool:
    """Return whether rows come from anything but lists of values."""
    conflict = query.optional("onConflict")
    own = {query["resultRelation"], conflict and conflict.get("exclRelIndex")}
    return any(
        entry["rtekind"] != VALUES
        for number, entry in enumerate(query.nodes("rtable"), 1)
        if number not in own and entry["rtekind"] != _RESULT
    )


_RESULT: Final = RTEKind.RESULT

_WRITTEN: Final = COMPARED.keys() - {oids.BYTEA, oids.TIME}
"""Types of constants whose texts are those of their Python values."""


def _routed(
    node: Node | None, row: Sequence[object], bound: Callable[[], tuple[ParameterValue, ...]]
) -> Routed:
    if node is None:
        return None
    if node.tag == "VAR":
        cell = row[node.integer("varattno") - 1]
        if not isinstance(cell, Node):
            raise UnknownValueError
        node = cell
    if node.tag == "PARAM" and node["paramkind"] == _EXTERNAL:
        return node.integer("paramid")
    if node.tag == "CONST" and node["consttype"] in _MOMENTS:
        datum = node["constvalue"]
        if not isinstance(datum, bytes):
            return None
        return _MOMENTS[node.integer("consttype")](decode(node.integer("consttype"), datum))
    if node.tag == "CONST" and node["consttype"] not in _WRITTEN:
        raise UnknownValueError
    return _plain(node, bound)


def _plain(node: Node, bound: Callable[[], tuple[ParameterValue, ...]]) -> str | None:
    if {node.get("resulttype"), node.get("funcresulttype")} & _MOMENTS.keys():
        # As values of keys these are numbers.
        raise UnknownValueError
    has_parameters = any(inner.tag == "PARAM" for inner, _ in walk(node))
    value = constant(node, bound() if has_parameters else ())
    if value is None:
        return None
    text = str(value)
    if "\\" in text or "\0" in text:
        raise UnknownValueError
    return text


def _date(value: object) -> str:
    if not isinstance(value, int) or value not in _DAYS:
        raise UnknownValueError
    return (date(1970, 1, 1) + timedelta(days=value)).isoformat()


def _timestamp(value: object) -> str:
    if not isinstance(value, int) or value // _DAY not in _DAYS:
        raise UnknownValueError
    return (_EPOCH + timedelta(microseconds=value)).isoformat().removesuffix("+00:00")


_MOMENTS: Final[Mapping[int, Callable[[object], str]]] = {
    oids.DATE: _date,
    oids.TIMESTAMP: _timestamp,
    oids.TIMESTAMPTZ: lambda value: _timestamp(value) + "+00",
}
