"""Triggers that PostgreSQL keeps on tables with foreign keys, which owners cannot disable."""

import psycopg
import pytest

pytestmark = pytest.mark.server


@pytest.mark.parametrize("table", ["parent", "child"])
@pytest.mark.parametrize("verb", ["DISABLE", "ENABLE"])
def test_all_triggers_are_refused_in_the_name_of_postgresqls_own(resident_gateway, table, verb):
    with psycopg.connect(resident_gateway.conninfo()) as connection:
        connection.execute("CREATE TABLE parent (id integer PRIMARY KEY)")
        connection.execute("CREATE TABLE child (id integer REFERENCES parent)")
        with pytest.raises(psycopg.errors.InsufficientPrivilege) as caught:
            connection.execute(f"ALTER TABLE {table} {verb} TRIGGER ALL")
        message = caught.value.diag.message_primary or ""
        assert message.startswith('permission denied: "RI_ConstraintTrigger_')
        assert message.endswith('" is a system trigger')
        connection.rollback()
