"""What single conditions of the rule do: without one, a wrong answer is found.

Each is named by its text, so that one that is changed is looked at again here. The lines that whole
functions are about are those of `test_random_statements` and `test_random_sources`; what random
statements do not come across, `test_shapes` tells.
"""

from collections.abc import Collection
from dataclasses import dataclass
from types import ModuleType

import pytest

from rewrite.needs import (
    constant_rows,
    joined_keys,
    levels,
    limits,
    steady,
    writes,
)
from tests.support.left_out import changed, found_after, replaced
from tests.support.random_forms import Form
from tests.support.thawing import Thawing

pytestmark = [pytest.mark.catalog, pytest.mark.slow]


@dataclass(frozen=True)
class Line:
    """A condition, and the random statements that show what it does."""

    module: ModuleType
    text: str
    without: str
    """What stands in its place."""
    kinds: Collection[str] = ()
    """What the statements begin with."""
    forms: Collection[Form] = ()
    """What is favoured in them."""


_WRITES = ("update", "delete", "insert", "merge", "with")
_TOLD_TOGETHER = (Form.JOINED, Form.SEVERAL, Form.UNKNOWN, Form.SET, Form.SUBQUERY)
_CHANGES = "if done in {Command.INSERT, Command.UPDATE, Command.DELETE}:"
_KEPT = "if key.kept_afterwards:\n            found.written.add((change.relid, key.columns))\n"

LINES: dict[str, Line] = {
    "a plain query: no aggregate": Line(levels, '"hasAggs", ', "", ("limited",), (Form.AGGREGATE,)),
    "a plain query: no rows made of one": Line(
        levels, '"hasTargetSRFs", ', "", ("limited",), (Form.MADE,)
    ),
    "LIMIT ALL": Line(
        limits,
        'limit is None or limit.get("constisnull")',
        "limit is None",
        ("limited",),
        (Form.UNSTEADY,),
    ),
    "LIMIT: a number that is known": Line(
        limits,
        "limit if is_constant(limit, definitions.volatility) else None",
        "limit",
        ("limited",),
        (Form.UNSTEADY,),
    ),
    "LIMIT: of one relation": Line(
        limits,
        'if len(read) != 1 or read[0].tag != "RANGETBLREF":',
        "if len(read) != 1:",
        ("limited",),
        (Form.BESIDE,),
    ),
    "LIMIT: what policies leave": Line(
        limits,
        'return not level.entry(read[0].integer("rtindex")).get("securityQuals")',
        "return True",
        ("limited",),
        (Form.POLICED,),
    ),
    "a queue: other conditions": Line(
        limits, "if told != asked:", "if False:", ("queued",), (Form.UNSTEADY, Form.OUTER)
    ),
    "a queue: of one relation": Line(
        limits,
        'query.items("rowMarks") or not _reads_one(level, own, conditions, definitions)',
        'query.items("rowMarks")',
        ("queued",),
        (Form.BESIDE,),
    ),
    "a queue: its order": Line(
        limits, "Queue(sort, values) if is_of_row", "Queue() if is_of_row", ("queued",)
    ),
    "a queue: an order that is steady": Line(
        limits,
        "own and is_steady(value, definitions.volatility)",
        "own",
        ("queued",),
        (Form.UNSTEADY,),
    ),
    "a queue: an order by its own columns": Line(
        limits, 'part["varlevelsup"] == 0 and part', "part", ("queued",), (Form.OUTER,)
    ),
    "computed values: of an UPDATE": Line(
        writes,
        "key.computed and (touched or change.command is Command.INSERT)",
        "key.computed and change.command is Command.INSERT",
        ("update",),
        (Form.KEPT,),
    ),
    "computed values: ON CONFLICT": Line(
        writes, "found.arbitrates |= change.arbitrates", "pass", ("insert",), (Form.KEPT,)
    ),
    "values kept afterwards": Line(
        writes, _KEPT, "if key.kept_afterwards:\n", _WRITES, (Form.KEPT,)
    ),
    "values kept afterwards: ON CONFLICT": Line(
        writes,
        "if not change.arbitrates:\n                continue",
        "continue",
        ("insert",),
        (Form.KEPT,),
    ),
    "ON CONFLICT": Line(
        writes,
        "replace(inserted, arbitrates=conflict is not None)",
        "inserted",
        ("insert",),
        (Form.KEPT,),
    ),
    "MERGE: its INSERT": Line(
        writes, _CHANGES, "if done in {Command.UPDATE, Command.DELETE}:", ("merge",)
    ),
    "MERGE: its UPDATE": Line(
        writes, _CHANGES, "if done in {Command.INSERT, Command.DELETE}:", ("merge",)
    ),
    "MERGE: its DELETE": Line(
        writes, _CHANGES, "if done in {Command.INSERT, Command.UPDATE}:", ("merge",)
    ),
    "keys of which one column is written": Line(
        writes,
        "return not given.isdisjoint(columns)",
        "return given >= set(columns)",
        ("update", "merge"),
    ),
    "parents of values that are not known": Line(
        writes, "rows = change.known(known) if known else None", "rows = ()", _WRITES
    ),
    "what is steady: functions": Line(
        steady, 'return function in _OF_TRANSACTION or volatility(function) == "i"', "return True"
    ),
    "known rows: of a plain query": Line(constant_rows, "if not is_plain(query):", "if False:"),
    "joined keys: rows of which all is known": Line(
        joined_keys,
        "if all(all(value is not None for value in row) for row in rows):\n"
        "        return _fixed(tuple(pairs), rows)",
        "if True:\n        return _fixed(tuple(pairs), tuple(r for r in rows if None not in r))",
        ("sourced",),
        _TOLD_TOGETHER,
    ),
}


@pytest.mark.parametrize("line", LINES)
def test_a_line_left_out_is_found(thawing: Thawing, line: str) -> None:
    left_out = LINES[line]
    change = replaced(left_out.module, left_out.text, left_out.without)
    assert found_after(thawing, changed(thawing, change), left_out.kinds, left_out.forms)
