"""Queues of more rows than may be hot: workers take the first ones that nobody else has taken.

All of it holds of PostgreSQL, too.
"""

import threading
from collections.abc import Callable, Iterator

import psycopg
import pytest

from tests.support.fix_server import Pair
from tests.support.tiers import make_tiered, schema_sessions

pytestmark = pytest.mark.server

SCHEMA = "queues"

WAITING = 8_000

THAW_ROWS = 5_000

TAKE = (
    "UPDATE job SET state = 'done' WHERE id = (SELECT id FROM job WHERE state = 'new'"
    " ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id"
)

LOCK = "SELECT id FROM job WHERE state = 'new' ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED"

Connect = Callable[[], psycopg.Connection]


@pytest.fixture(params=["plain", "tiered"])
def sessions(two_tiers_pair: Pair, request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Yield what opens sessions beside a queue that is PostgreSQL's, or tiered and cold."""
    is_plain = request.param == "plain"
    server = two_tiers_pair.plain if is_plain else two_tiers_pair.gateway
    with schema_sessions(server.conninfo(two_tiers_pair.database), SCHEMA) as opened:
        first = opened()
        first.execute("CREATE TABLE job (id integer PRIMARY KEY, state text)")
        first.execute(f"INSERT INTO job SELECT g, 'new' FROM generate_series(1, {WAITING}) g")
        if is_plain:
            yield opened
            return
        make_tiered(first, "job")
        first.execute(f"ALTER TABLE job SET (gateway.thaw_rows = {THAW_ROWS})")
        yield opened
        assert first.execute("SELECT gateway.check('job')").fetchall() == [(0,)]


def taken(connection: psycopg.Connection) -> list[int]:
    """Return the jobs that are done."""
    done = connection.execute("SELECT id FROM job WHERE state = 'done' ORDER BY id")
    return [number for (number,) in done]


def test_every_job_is_taken_once_and_none_is_left_out(sessions: Connect) -> None:
    workers, each = [sessions() for _ in range(4)], 400
    found: list[int] = []
    failures: list[psycopg.Error] = []

    def work(connection: psycopg.Connection) -> None:
        try:
            for _ in range(each):
                ((number,),) = connection.execute(TAKE).fetchall()
                found.append(number)
        except psycopg.Error as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=[worker]) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    # Nobody has kept one locked: those that are taken are the first ones.
    assert sorted(found) == taken(workers[0]) == list(range(1, len(workers) * each + 1))


def test_jobs_that_others_have_locked_are_passed_however_many(sessions: Connect) -> None:
    one, other = sessions(), sessions()
    with one.transaction():
        locked = [number for (number,) in one.execute(LOCK, [1_500]).fetchall()]
        assert locked == list(range(1, 1_501))
        assert other.execute(LOCK, [2]).fetchall() == [(1_501,), (1_502,)]
        assert other.execute(TAKE).fetchall() == [(1_501,)]
        assert other.execute(TAKE).fetchall() == [(1_502,)]
    # Nobody has them locked any more.
    assert other.execute(TAKE).fetchall() == [(1,)]
    assert taken(one) == [1, 1_501, 1_502]


def test_jobs_that_others_have_taken_and_given_back_are_found(sessions: Connect) -> None:
    one, other = sessions(), sessions()
    assert one.execute(TAKE).fetchall() == [(1,)]
    with one.transaction(force_rollback=True):
        one.execute(TAKE.replace("LIMIT 1 ", "LIMIT 900 ").replace("id = (", "id IN ("))
        assert other.execute(TAKE).fetchall() == [(902,)]
    assert other.execute(TAKE).fetchall() == [(2,)]
    assert one.execute(TAKE).fetchall() == [(3,)]


def test_new_jobs_and_those_that_were_changed_have_their_turn(sessions: Connect) -> None:
    one, other = sessions(), sessions()
    assert one.execute(TAKE).fetchall() == [(1,)]
    other.execute("INSERT INTO job VALUES (-7, 'new'), (9000, 'new')")
    assert one.execute(TAKE).fetchall() == [(-7,)]
    other.execute("UPDATE job SET state = 'held' WHERE id = 2")
    other.execute("DELETE FROM job WHERE id = 3")
    other.execute("UPDATE job SET id = -3 WHERE id = 7777")
    assert one.execute(TAKE).fetchall() == [(-3,)]
    assert one.execute(TAKE).fetchall() == [(4,)]
    # A bulk write of the table makes all rows cold.
    other.execute("UPDATE job SET state = 'old' WHERE id < 4000 AND state = 'new'")
    assert one.execute(TAKE).fetchall() == [(4_000,)]


def test_who_waits_for_a_job_gets_the_next_one_when_it_is_gone(sessions: Connect) -> None:
    one, other = sessions(), sessions()
    waiting = LOCK.replace(" SKIP LOCKED", "")
    answers: list[tuple[int, ...]] = []
    with one.transaction():
        assert one.execute(TAKE).fetchall() == [(1,)]
        worker = threading.Thread(
            target=lambda: answers.extend(other.execute(waiting, [1]).fetchall())
        )
        worker.start()
        worker.join(1.0)
        assert worker.is_alive()
        with pytest.raises(psycopg.errors.LockNotAvailable):
            sessions().execute(waiting + " NOWAIT", [1])
    worker.join(30.0)
    # As in PostgreSQL: what it had waited for does not satisfy the condition any more.
    assert answers == [(2,)]


def test_a_new_job_that_somebody_has_in_work_is_passed(sessions: Connect) -> None:
    one, other = sessions(), sessions()
    last = LOCK.replace("ORDER BY id", "ORDER BY id DESC")
    assert one.execute(TAKE).fetchall() == [(1,)]
    one.execute("INSERT INTO job VALUES (9000, 'new')")
    with one.transaction(force_rollback=True):
        one.execute("UPDATE job SET state = 'done' WHERE state = 'new' AND id > 8999")
        other.execute("SET lock_timeout = '5s'")
        assert other.execute(last, [2]).fetchall() == [(8_000,), (7_999,)]
        with pytest.raises(psycopg.errors.LockNotAvailable, match="on row in relation"):
            other.execute(last.replace("SKIP LOCKED", "NOWAIT"), [2])
    assert other.execute(last, [1]).fetchall() == [(9_000,)]
