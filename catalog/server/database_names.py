"""Which databases a statement may be about, told from its text alone."""

from typing import Final

_TEMPLATES: Final = frozenset({"template0", "template1"})
"""Databases that CREATE DATABASE copies unless it names another one."""

_ESCAPED: Final = "U&"
"""Beginning of identifiers that may be written in any way."""


def may_name(text: str, database: str) -> bool:
    """Return whether a statement may be about a database: False only where it is not."""
    folded = text.casefold()
    return (
        database in _TEMPLATES
        or _ESCAPED.casefold() in folded
        or database.casefold() in folded.replace('""', '"')
    )
