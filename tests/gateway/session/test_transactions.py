"""Rules of the session's transaction, on a catalog that only keeps its status."""

import pytest

from catalog.errors import CatalogError, GatewayError
from pgwire_gateway.session.transactions import MOST_BEGINNINGS, Transaction


class StatusOnlyCatalog:
    """A catalog session of which only the transaction matters."""

    def __init__(self):
        self.transaction = self
        self.transaction_status = "I"
        self.done = []

    def begin(self, command="BEGIN"):
        self.done.append(command)
        self.transaction_status = "T"

    def begin_later(self):
        self.done.append("BEGIN")
        self.transaction_status = "T"

    def commit(self, *, is_seen=False):  # noqa: ARG002 - nothing is doubted here
        self.done.append("COMMIT")
        self.transaction_status = "I"

    def rollback(self):
        self.done.append("ROLLBACK")
        self.transaction_status = "I"

    def leave_own_savepoints(self):
        self.done.append("left savepoints")

    def execute(self, sql):
        self.transaction_status = "E"
        raise CatalogError(f"syntax error at {sql}", sqlstate="42601")


@pytest.fixture
def catalog():
    return StatusOnlyCatalog()


@pytest.fixture
def notices():
    return []


@pytest.fixture
def transaction(catalog, notices):
    return Transaction(catalog, lambda: notices.append("written"), notices.append)


def test_an_implicit_transaction_is_invisible_and_committed_at_its_end(transaction, catalog):
    transaction.begin_implicit()
    assert (transaction.status, transaction.open) == ("I", True)
    transaction.end_implicit()
    assert catalog.done == ["BEGIN", "COMMIT"]


def test_a_transaction_of_the_client_is_neither_reopened_nor_ended(transaction, catalog):
    catalog.begin_later()
    transaction.begin_implicit()
    transaction.end_implicit()
    assert catalog.done == ["BEGIN"]
    assert transaction.status == "T"


def test_begin_inside_an_implicit_transaction_makes_it_the_clients(transaction, catalog):
    transaction.begin_implicit()
    assert transaction.begin_explicit()
    transaction.end_implicit()
    assert transaction.status == "T"
    assert catalog.done == ["BEGIN"]


def test_a_failure_rolls_an_implicit_transaction_back(transaction, catalog):
    transaction.begin_implicit()
    transaction.written.add(1)
    transaction.fail()
    assert catalog.done == ["BEGIN", "ROLLBACK"]
    assert (transaction.status, transaction.written) == ("I", set())


def test_a_failure_outside_postgresql_fails_the_clients_transaction_there(transaction, catalog):
    catalog.begin_later()
    transaction.fail()
    assert transaction.status == "E"
    with pytest.raises(GatewayError) as caught:
        transaction.require_not_failed()
    assert caught.value.sqlstate == "25P02"


def test_only_a_transaction_that_wrote_is_reported(transaction, notices):
    transaction.begin_implicit()
    transaction.end_implicit()
    assert notices == []
    transaction.begin_implicit()
    transaction.written.add(1)
    transaction.end_implicit()
    assert notices == ["written"]


def test_a_transaction_expected_to_begin_ends_like_one_begun_here(transaction, catalog):
    transaction.expect_implicit()
    catalog.begin_later()
    assert transaction.status == "I"
    transaction.end_implicit()
    assert catalog.done == ["BEGIN", "COMMIT"]


def test_tables_that_were_made_are_told_when_the_transaction_has_ended(
    transaction, catalog, notices
):
    transaction.begin_implicit()
    transaction.made[7] = "1/7"
    transaction.fail()
    assert catalog.done == ["BEGIN", "ROLLBACK"]
    assert notices == [{7: "1/7"}]
    transaction.begin_implicit()
    transaction.made[8] = "1/8"
    assert notices == [{7: "1/7"}]
    transaction.end_implicit()
    assert notices == [{7: "1/7"}, {8: "1/8"}]
    assert transaction.made == {}


@pytest.mark.parametrize(
    "end", [Transaction.fail, Transaction.end_implicit], ids=["it fails", "it is committed"]
)
def test_what_is_noted_of_a_transaction_ends_with_it(transaction, end):
    nothing = noted(transaction)
    transaction.begin_implicit()
    transaction.defers = transaction.runs_nothing_at_once = transaction.is_seen = True
    assert transaction.may_guard()
    transaction.written.add(1)
    transaction.newly_hot.add(1)
    transaction.savepoints.add("s", 1)
    end(transaction)
    assert noted(transaction) == nothing


def noted(transaction):
    return (
        transaction.defers,
        transaction.runs_nothing_at_once,
        transaction.is_seen,
        transaction.guarded,
        set(transaction.written),
        set(transaction.newly_hot),
        transaction.savepoints.latest,
    )


BEGIN = "BEGIN ISOLATION LEVEL SERIALIZABLE"


def test_a_transaction_in_which_nothing_has_run_is_begun_again_as_it_was(transaction, catalog):
    catalog.begin(BEGIN)
    transaction.note_begun(BEGIN)
    transaction.written.add(1)
    assert transaction.begin_again(transaction.beginning)
    assert catalog.done == [BEGIN, "left savepoints", "ROLLBACK", BEGIN]
    assert (transaction.status, transaction.written) == ("T", set())


def test_so_it_is_a_few_times(transaction, catalog):
    catalog.begin(BEGIN)
    transaction.note_begun(BEGIN)
    assert [transaction.begin_again(transaction.beginning) for _ in range(MOST_BEGINNINGS)] == [
        *[True] * (MOST_BEGINNINGS - 1),
        False,
    ]
    assert catalog.done.count(BEGIN) == MOST_BEGINNINGS
    assert transaction.status == "T"


def test_one_in_which_something_has_run_is_not(transaction, catalog):
    catalog.begin(BEGIN)
    transaction.note_begun(BEGIN)
    transaction.note_run()
    assert not transaction.begin_again(transaction.beginning)
    assert catalog.done == [BEGIN]


def test_nor_is_one_that_the_client_has_not_begun(transaction, catalog):
    transaction.begin_implicit()
    assert not transaction.begin_again(transaction.beginning)
    assert catalog.done == ["BEGIN"]
