"""All functions that have a mapping, by key; what is not here is refused.

Keys are those of `catalog/pg/functions.py`.
"""

from typing import Final

from catalog.pg.functions import PROCEDURES
from rewrite.dialect import (
    array_elements,
    arrays,
    casts,
    comparisons,
    date_fields,
    datetime_formats,
    datetimes,
    float_numeric,
    floats,
    integers,
    intervals,
    json_containment,
    json_kinds,
    json_paths,
    numeric_functions,
    oids,
    patterns,
    regexp_functions,
    strings,
)
from rewrite.dialect.calls import Call, Handler
from rewrite.dialect.literals import literal
from rewrite.errors import UnsupportedError, UnsupportedFunctionError
from rewrite.values import Value


def _session_name(attribute: str) -> Handler:
    def handle(call: Call) -> Value:
        return literal(getattr(call.constants, attribute), oids.NAME)

    return handle


_SESSION: Final[dict[str, Handler]] = {
    "current_user": _session_name("current_user"),
    "session_user": _session_name("session_user"),
    "current_database": _session_name("current_database"),
    "current_schema": _session_name("current_schema"),
}

FUNCTIONS: Final[dict[str, Handler]] = {
    **comparisons.FUNCTIONS,
    **integers.FUNCTIONS,
    **floats.FUNCTIONS,
    **float_numeric.FUNCTIONS,
    **numeric_functions.FUNCTIONS,
    **strings.FUNCTIONS,
    **patterns.FUNCTIONS,
    **regexp_functions.FUNCTIONS,
    **date_fields.FUNCTIONS,
    **datetimes.FUNCTIONS,
    **datetime_formats.FUNCTIONS,
    **intervals.FUNCTIONS,
    **casts.FUNCTIONS,
    **arrays.FUNCTIONS,
    **array_elements.FUNCTIONS,
    **json_paths.FUNCTIONS,
    **json_containment.FUNCTIONS,
    **json_kinds.FUNCTIONS,
    **_SESSION,
}


def procedure(oid: int) -> tuple[str, str]:
    """Return key and signature of a function; UnsupportedFunctionError for one of users."""
    found = PROCEDURES.get(oid)
    if found is None:
        raise UnsupportedFunctionError(oid)
    return found


def call_function(call: Call) -> Value:
    """Map a call; UnsupportedError naming the function when there is no mapping."""
    if call.collation not in oids.BYTEWISE_COLLATIONS:
        raise UnsupportedError(f"function {call.signature} with this collation is not supported")
    handler = FUNCTIONS.get(call.key)
    if handler is None:
        raise call.refuse()
    return handler(call)
