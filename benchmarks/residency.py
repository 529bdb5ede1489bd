"""Who answers for a table of the gateway: PostgreSQL (resident) or Spark (tiered)."""

import time
from collections.abc import Iterable

from benchmarks.client import AnswerError, Client

RESIDENT = "resident"
TIERED = "tiered"

CHANGE_TIMEOUT_S = 120.0
PAUSE_S = 0.01


def of(client: Client, table: str) -> str:
    """Return the residency of a table."""
    rows = client.query(f"SELECT residency FROM gateway.tables WHERE table_name = '{table}'")
    return str(rows[0][0]) if len(rows) == 1 else f"unknown: {rows}"


def require(client: Client, tables: Iterable[str], wanted: str) -> None:
    """Make sure that what is measured is a table of that kind.

    Raises:
        AnswerError: A table is of the other kind.
    """
    for table in tables:
        found = of(client, table)
        if found != wanted:
            raise AnswerError(f"table {table} should be {wanted}, it is {found}")


def require_lawful(client: Client, tables: Iterable[str]) -> None:
    """Make sure that the journals hold what the resident tables hold.

    Raises:
        AnswerError: Rows differ.
    """
    for table in tables:
        differences = client.query(f"SELECT gateway.check('{table}')")
        if differences != [("0",)]:
            raise AnswerError(f"gateway.check('{table}') answers {differences}")


def freeze(client: Client, table: str) -> None:
    """Ask for a tiered table; the gateway makes it one in its own time."""
    client.query(f"ALTER TABLE {table} SET (gateway.residency = never)")


def wait_until_tiered(client: Client, table: str) -> None:
    """Look again and again until a table is tiered.

    Raises:
        AnswerError: It stays resident.
    """
    deadline = time.monotonic() + CHANGE_TIMEOUT_S
    while of(client, table) != TIERED:
        if time.monotonic() > deadline:
            raise AnswerError(f"table {table} does not become tiered")
        time.sleep(PAUSE_S)
