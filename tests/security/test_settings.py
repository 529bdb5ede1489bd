"""Settings that would let a role see or do more: each by all the doors that lead to settings.

A setting that only superusers may change is PostgreSQL's to refuse, wherever it is named. What the
gateway has for itself it refuses where the name stands in the statement; by other doors these can
be set, and tell nothing: ``tests/security/test_secrets.py``.
"""

from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.support.servers import Address
from tests.support.wire_client import LoginError, WireClient

pytestmark = pytest.mark.server

ROLE = "settings_mallory"
DATABASE = "settings"
"""Belongs to the role."""

DENIED = "42501"
UNSUPPORTED = "0A000"

Door = Callable[[Address, psycopg.Connection, str, str], str | None]
"""Tries to give a setting a value; the SQLSTATE of what is said to it, None for nothing."""


def _statement(text: str) -> Door:
    def door(_: Address, session: psycopg.Connection, name: str, value: str) -> str | None:
        try:
            with session.transaction(force_rollback=True):
                session.execute(text.format(name, value))  # type: ignore[call-overload]
        except psycopg.Error as error:
            return error.sqlstate
        return None

    return door


def _startup(*parameters: str) -> Door:
    def door(server: Address, _: psycopg.Connection, name: str, value: str) -> str | None:
        key, given = (text.format(name, value) for text in parameters)
        try:
            WireClient.connect(
                (server.host, server.port), {"user": ROLE, "database": DATABASE, key: given}
            ).close()
        except LoginError as error:
            return error.error.sqlstate
        return None

    return door


NAMED: dict[str, Door] = {
    "SET": _statement("SET {0} = '{1}'"),
    "SET LOCAL": _statement("SET LOCAL {0} = '{1}'"),
    "ALTER ROLE": _statement(f"ALTER ROLE {ROLE} SET {{0}} = '{{1}}'"),
    "ALTER ROLE IN DATABASE": _statement(
        f"ALTER ROLE {ROLE} IN DATABASE {DATABASE} SET {{0}} = '{{1}}'"
    ),
    "ALTER DATABASE": _statement(f"ALTER DATABASE {DATABASE} SET {{0}} = '{{1}}'"),
}
"""Statements of which the setting is a part."""

HIDDEN: dict[str, Door] = {
    "set_config": _statement("SELECT set_config('{0}', '{1}', false)"),
    "set_config LOCAL": _statement("SELECT set_config('{0}', '{1}', true)"),
    "pg_settings": _statement("UPDATE pg_settings SET setting = '{1}' WHERE name = '{0}'"),
    "CREATE FUNCTION": _statement(
        "CREATE FUNCTION f() RETURNS void LANGUAGE sql SET {0} = '{1}' AS ''"
    ),
    "ALTER FUNCTION": _statement("ALTER FUNCTION public.altered() SET {0} = '{1}'"),
    "CREATE PROCEDURE": _statement("CREATE PROCEDURE f() LANGUAGE sql SET {0} = '{1}' AS ''"),
    "DO": _statement("DO $$ BEGIN SET LOCAL {0} = '{1}'; END $$"),
    "startup message": _startup("{0}", "{1}"),
    "startup options": _startup("options", "-c {0}={1}"),
}
"""Other ways; the gateway does not look for names of settings there."""

DOORS = {**NAMED, **HIDDEN}

OF_SUPERUSERS = {
    # What keeps journals.
    "session_replication_role": "replica",
    "event_triggers": "off",
    "allow_system_table_mods": "on",
    "zero_damaged_pages": "on",
    "ignore_checksum_failure": "on",
    "lo_compat_privileges": "on",
    # What is written down of statements and parameters, and told with messages.
    "log_statement": "all",
    "log_duration": "on",
    "log_min_duration_statement": "0",
    "log_min_duration_sample": "0",
    "log_statement_sample_rate": "1",
    "log_transaction_sample_rate": "1",
    "log_parameter_max_length": "-1",
    "log_min_messages": "debug5",
    "log_min_error_statement": "debug5",
    "log_error_verbosity": "verbose",
    "log_lock_waits": "on",
    "log_parser_stats": "on",
    "log_planner_stats": "on",
    "log_executor_stats": "on",
    "log_statement_stats": "on",
    "log_replication_commands": "on",
    "backtrace_functions": "errfinish",
    "track_activities": "off",
    "track_functions": "all",
    "compute_query_id": "on",
    # Resources of others.
    "deadlock_timeout": "1",
    "max_stack_depth": "100",
    "temp_file_limit": "1",
}

OF_THE_GATEWAY = {
    "debug_print_parse": "on",
    "debug_print_rewritten": "on",
    "debug_print_plan": "on",
    "debug_pretty_print": "on",
    "pg_journal.writing_1": "x",
}

UNKNOWN_TO_POSTGRESQL = {"CREATE FUNCTION", "ALTER FUNCTION", "CREATE PROCEDURE"}
"""Doors by which PostgreSQL refuses settings that no module has made known, as ours."""

ALL = "SELECT name, setting FROM pg_settings ORDER BY name"


@pytest.fixture(scope="module")
def mallory(resident_gateway: Address) -> Iterator[psycopg.Connection]:
    """A session of a role that owns a database and a function; its settings are the same then."""
    resident_gateway.execute(
        f"CREATE ROLE {ROLE} LOGIN",
        f"GRANT {ROLE} TO postgres",
        f"CREATE DATABASE {DATABASE} OWNER {ROLE}",
    )
    conninfo = make_conninfo(resident_gateway.conninfo(DATABASE), user=ROLE)
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("CREATE FUNCTION altered() RETURNS void LANGUAGE sql AS ''")
        before = connection.execute(ALL).fetchall()
        yield connection
        assert connection.execute(ALL).fetchall() == before
    resident_gateway.execute(f"DROP DATABASE {DATABASE} WITH (FORCE)", f"DROP ROLE {ROLE}")


@pytest.mark.parametrize("door", DOORS)
def test_what_superusers_may_set(
    resident_gateway: Address, mallory: psycopg.Connection, door: str
) -> None:
    answers = {
        name: DOORS[door](resident_gateway, mallory, name, value)
        for name, value in OF_SUPERUSERS.items()
    }
    assert answers == dict.fromkeys(OF_SUPERUSERS, DENIED)


@pytest.mark.parametrize("door", DOORS)
def test_what_is_the_gateways(
    resident_gateway: Address, mallory: psycopg.Connection, door: str
) -> None:
    answers = {
        name: DOORS[door](resident_gateway, mallory, name, value)
        for name, value in OF_THE_GATEWAY.items()
    }
    expected = dict.fromkeys(OF_THE_GATEWAY, DENIED if door in NAMED else None)
    if door in UNKNOWN_TO_POSTGRESQL:
        expected["pg_journal.writing_1"] = DENIED
    assert answers == expected


@pytest.mark.parametrize("door", DOORS)
def test_parameters_in_errors(
    resident_gateway: Address, mallory: psycopg.Connection, door: str
) -> None:
    """Who has had them told can log in no more, and be given no answer on journaled tables."""
    name = "log_parameter_max_length_on_error"
    answer = DOORS[door](resident_gateway, mallory, name, "-1")
    assert answer == (UNSUPPORTED if door.startswith("startup") else None)
