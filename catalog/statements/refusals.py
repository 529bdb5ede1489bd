"""Statements that are refused before PostgreSQL sees them, as data.

Most of what clients may not do is refused by PostgreSQL itself: for want of privileges (COPY to
programs and files, LOAD, ALTER SYSTEM, extensions) or by the bookkeeping's event triggers
(functions, triggers, rules, materialized views …). Here is what is left.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from catalog.pg import sqlstate

_OWN_SETTINGS: Final = re.compile(r"pg_journal\..*|debug_(print_.*|pretty_print)", re.IGNORECASE)
"""Settings the gateway itself uses on a client's catalog connection."""

_PLAIN_TEMPLATES: Final = frozenset({"template0", "template1"})


def _sets_own(fields: Mapping[str, Any]) -> bool:
    return _OWN_SETTINGS.fullmatch(fields.get("name", "")) is not None


def _sets_own_for_all(fields: Mapping[str, Any]) -> bool:
    return _sets_own(fields.get("setstmt", {}))


def _copies_database(fields: Mapping[str, Any]) -> bool:
    for option in fields.get("options", ()):
        element = option["DefElem"]
        name = element.get("arg", {}).get("String", {}).get("sval")
        if element["defname"] == "template" and name not in _PLAIN_TEMPLATES | {None}:
            return True
    return False


_REFUSALS: Final[
    tuple[tuple[str, Callable[[Mapping[str, Any]], bool], str, str, str | None], ...]
] = (
    (
        "VariableSetStmt",
        _sets_own,
        sqlstate.INSUFFICIENT_PRIVILEGE,
        'permission denied to set parameter "{name}"',
        None,
    ),
    (
        "AlterRoleSetStmt",
        _sets_own_for_all,
        sqlstate.INSUFFICIENT_PRIVILEGE,
        "permission denied to set a parameter of the gateway",
        None,
    ),
    (
        "AlterDatabaseSetStmt",
        _sets_own_for_all,
        sqlstate.INSUFFICIENT_PRIVILEGE,
        "permission denied to set a parameter of the gateway",
        None,
    ),
    (
        "CreatedbStmt",
        _copies_database,
        sqlstate.FEATURE_NOT_SUPPORTED,
        "CREATE DATABASE with a template other than template0 and template1 is not supported",
        "Data files are not copied with a database.",
    ),
)
"""Parse node, condition on its fields, SQLSTATE, message, hint."""


def refusal(tag: str, fields: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return sqlstate, message and hint when a statement is refused, else None."""
    for refused, condition, code, message, hint in _REFUSALS:
        if refused == tag and condition(fields):
            return {
                "sqlstate": code,
                "message": message.format(name=fields.get("name", "")),
                "hint": hint,
            }
    return None
