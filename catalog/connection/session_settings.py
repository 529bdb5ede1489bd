"""Settings of the gateway's own making on connections to the catalog, as data."""

from collections.abc import Mapping
from typing import Final

EVERYWHERE: Final[Mapping[str, str]] = {
    # Parse trees are read by the gateway, not by people.
    "debug_pretty_print": "off",
}
"""On every connection."""

ADMINISTRATOR: Final[Mapping[str, str]] = {
    # Else functions and operators of users could stand in front of PostgreSQL's.
    "search_path": "pg_catalog, pg_temp",
    "role": "none",
    # Else the planner could evaluate CHECK constraints of users with an administrator's rights.
    "constraint_exclusion": "off",
    "standard_conforming_strings": "on",
    "transform_null_equals": "off",
    "array_nulls": "on",
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    # A PostgreSQL of others may know XML: not each value is a document.
    "xmloption": "content",
    "default_transaction_read_only": "off",
    "default_transaction_isolation": "read committed",
    "default_transaction_deferrable": "off",
    "default_tablespace": "",
    "log_parameter_max_length_on_error": "0",
    "plpgsql.extra_errors": "none",
    "plpgsql.extra_warnings": "none",
    "statement_timeout": "0",
    "transaction_timeout": "0",
    "lock_timeout": "0",
    "idle_session_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
}
"""On connections with an administrator's rights.

Whoever owns a database can give settings of these names to all that connect to it, by ALTER
DATABASE: nobody's settings but ours may tell what runs with such rights.
"""
