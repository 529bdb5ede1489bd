"""Contexts of errors tell clients of their own functions alone."""

import pytest

from catalog.connection import contexts

OWN = "PL/pgSQL function pg_journal.follow_command() line 4 at EXECUTE"
CLIENTS = "PL/pgSQL function public.mine(integer) line 2 at SQL statement"
FOLLOWING = 'SQL statement "ALTER TABLE journal_17 ADD COLUMN x text"'
LONG = 'SQL statement "UPDATE pg_journal.journals\n   SET x = "y"\n WHERE a"'
TUPLE = 'while locking tuple (1,4) in relation "journals"'
ENTRY = 'while inserting index tuple (2,1) in relation "tail_17_key"'
OF_FUNCTION = 'SQL function "locked" statement 1'
OF_CLIENT = 'SQL statement "UPDATE t\n SET x = 1"'


@pytest.mark.parametrize(
    ("context", "kept"),
    [
        ((OWN,), None),
        ((FOLLOWING, OWN), None),
        ((LONG, OWN), None),
        ((FOLLOWING, OWN, OF_CLIENT, CLIENTS), None),
        (('SQL function "tail_column" statement 1', LONG, OWN), None),
        ((CLIENTS, FOLLOWING, OWN), (CLIENTS,)),
        ((OF_CLIENT, CLIENTS, LONG, OWN), (OF_CLIENT, CLIENTS)),
        ((CLIENTS, FOLLOWING, OWN, OF_CLIENT, CLIENTS), (CLIENTS, OF_CLIENT, CLIENTS)),
        ((OF_CLIENT, CLIENTS), (OF_CLIENT, CLIENTS)),
        ((TUPLE, LONG, OWN), None),
        ((ENTRY, OF_FUNCTION, LONG, OWN), None),
        ((TUPLE, FOLLOWING, LONG, OWN, OF_CLIENT, CLIENTS), None),
        ((CLIENTS, TUPLE, LONG, OWN), (CLIENTS,)),
        ((TUPLE, OF_CLIENT, CLIENTS, LONG, OWN), (TUPLE, OF_CLIENT, CLIENTS)),
    ],
)
def test_what_is_the_clients_is_kept(
    context: tuple[str, ...], kept: tuple[str, ...] | None
) -> None:
    found = contexts.clients_part("\n".join(context))
    assert found == (None if kept is None else "\n".join(kept))
    assert contexts.is_own("\n".join(context)) is (OWN in context)
