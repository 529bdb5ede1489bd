"""A backend stands in for what others do for its session, and nothing of that stays."""

import os
import socket
import time
from contextlib import ExitStack

import pytest

from catalog.errors import CatalogUnavailableError
from tests.support.fix_catalog import PATIENCE_S, Client, wait_until_waiting

pytestmark = pytest.mark.catalog

TEXT = "SELECT '/* x' /* /* deep */ */ FROM t -- and so on */"


def stand_in(client: Client, other: Client) -> None:
    client.session.stand_in(TEXT, lambda: True)
    wait_until_waiting(client, other, "Timeout")


def seen(client: Client, other: Client, columns: str) -> list[tuple[str | None, ...]]:
    pid = client.session.backend_pid
    return other.run(f"SELECT {columns} FROM pg_stat_activity WHERE pid = {pid}")


def test_others_see_the_clients_statement_and_no_locks(client: Client, other: Client) -> None:
    stand_in(client, other)
    ((state, query),) = seen(client, other, "state, query")
    assert state == "active"
    assert query.startswith("/* SELECT '/ * x' / * / * deep * / * / FROM t -- and so on * / */ ")
    locks = f"SELECT locktype FROM pg_locks WHERE pid = {client.session.backend_pid}"
    assert other.run(locks) == [("virtualxid",)]


def test_it_is_woken_by_what_is_asked_next(client: Client, other: Client) -> None:
    client.run("CREATE TABLE t (a int)")
    for status in ("I", "T"):
        if status == "T":
            client.session.transaction.begin()
            client.run("SAVEPOINT mine")
        stand_in(client, other)
        assert client.session.transaction_status == status
        begun = time.monotonic()
        assert client.run("SELECT 1") == [("1",)]
        assert time.monotonic() - begun < PATIENCE_S / 2
        assert client.session.transaction_status == status
        client.run("SHOW statement_timeout")
    assert client.value("SHOW client_connection_check_interval") == "0"
    client.run("RELEASE mine")
    assert client.sqlstate("RELEASE pgwire_presence") == "3B001"
    client.session.transaction.rollback()


def test_it_stands_in_only_where_nothing_else_is_asked(client: Client, other: Client) -> None:
    client.session.stand_in(TEXT, lambda: False)
    assert seen(client, other, "state") == [("idle",)]
    rows = client.session.execute("SELECT g FROM generate_series(1, 5000) g").rows
    next(rows)
    client.session.stand_in(TEXT, lambda: True)
    assert len(list(rows)) == 4999
    client.session.transaction.begin()
    client.sqlstate("SELECT 1/0")
    client.session.stand_in(TEXT, lambda: True)
    assert seen(client, other, "state") == [("idle in transaction (aborted)",)]
    client.session.transaction.rollback()


@pytest.mark.parametrize("status", ["I", "T"])
def test_a_cancel_request_is_told_and_leaves_the_transaction(
    client: Client, other: Client, status: str
) -> None:
    client.run("SET statement_timeout = '1s'")
    if status == "T":
        client.session.transaction.begin()
        client.run("SELECT 1")
    stand_in(client, other)
    assert client.session.interruption(1.5) is None
    other.run(f"SELECT pg_cancel_backend({client.session.backend_pid})")
    error = client.session.interruption(PATIENCE_S)
    assert error is not None
    assert (error.sqlstate, error.message) == (
        "57014",
        "canceling statement due to user request",
    )
    assert client.session.transaction_status == status
    assert client.run("SELECT 1") == [("1",)]


def test_who_is_terminated_is_told_by_whatever_is_asked_next(
    client: Client, catalog, database
) -> None:
    administrator = catalog.admin(database)
    client.session.stand_in(TEXT, lambda: True)
    list(
        administrator.execute(
            f"SELECT pg_terminate_backend({client.session.backend_pid}, 5000)"
        ).rows
    )
    administrator.close()
    with pytest.raises(CatalogUnavailableError) as caught:
        client.run("SELECT 1")
    assert caught.value.sqlstate == "57P01"
    with pytest.raises(CatalogUnavailableError) as again:
        client.session.require_connected()
    assert again.value.sqlstate == "57P01"


def test_who_is_terminated_is_told_though_another_has_the_number_of_its_socket(
    client: Client, catalog, database
) -> None:
    administrator = catalog.admin(database)
    client.session.stand_in(TEXT, lambda: True)
    number = client.session.fileno()
    terminate = f"SELECT pg_terminate_backend({client.session.backend_pid}, 5000)"
    list(administrator.execute(terminate).rows)
    administrator.close()
    with pytest.raises(CatalogUnavailableError):
        client.session.interruption(PATIENCE_S)
    with ExitStack() as stack:
        numbers: set[int] = set()
        while number not in numbers and len(numbers) < 1_000:
            pair = socket.socketpair()
            numbers.update(stack.enter_context(end).fileno() for end in pair)
        assert number in numbers
        assert client.session.fileno() == -1
        with pytest.raises(CatalogUnavailableError) as caught:
            client.session.require_connected()
    assert caught.value.sqlstate == "57P01"


def test_a_backend_whose_gateway_is_gone_does_not_sleep_on(client: Client, other: Client) -> None:
    client.session.transaction.begin()
    stand_in(client, other)
    with socket.socket(fileno=os.dup(client.session.fileno())) as ours:
        ours.shutdown(socket.SHUT_RDWR)
    deadline = time.monotonic() + PATIENCE_S
    while seen(client, other, "state") and time.monotonic() < deadline:
        time.sleep(0.1)
    assert seen(client, other, "state") == []
