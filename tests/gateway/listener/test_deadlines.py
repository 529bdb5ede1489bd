"""What is to be done later is done by one thread, in time, or not at all."""

import threading

from pgwire_gateway.session.deadlines import Deadlines

PATIENCE_S = 30.0

LATER_S = 3600.0


def test_the_earliest_is_done_first_whenever_it_was_asked_for():
    deadlines, done, last = Deadlines(), [], threading.Event()
    deadlines.after(1.0, lambda: (done.append("late"), last.set()))
    deadlines.after(0.05, lambda: done.append("early"))
    assert last.wait(PATIENCE_S)
    assert done == ["early", "late"]


def test_what_was_called_off_is_not_done():
    deadlines, done, last = Deadlines(), [], threading.Event()
    deadlines.after(0.05, lambda: done.append("called off")).cancel()
    kept = deadlines.after(0.1, last.set)
    assert last.wait(PATIENCE_S)
    assert done == []
    kept.cancel()


def test_an_action_that_lasts_delays_no_other():
    deadlines, release, last = Deadlines(), threading.Event(), threading.Event()
    deadlines.after(0, lambda: release.wait(PATIENCE_S))
    deadlines.after(0.01, last.set)
    assert last.wait(PATIENCE_S)
    release.set()


def test_where_no_thread_can_be_started_all_is_done_by_one(monkeypatch, caplog):
    deadlines, done, last = Deadlines(), [], threading.Event()
    deadlines.after(LATER_S, lambda: None)  # starts the one that waits

    def refused(_thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    deadlines.after(0, lambda: 1 // 0)
    deadlines.after(0.01, lambda: done.append("done"))
    deadlines.after(0.02, last.set)
    assert last.wait(PATIENCE_S)
    assert done == ["done"]
    assert "ZeroDivisionError" in caplog.text


def test_many_that_wait_are_one_thread_and_leave_nothing_when_called_off():
    deadlines = Deadlines()
    before = threading.active_count()
    waiting = [deadlines.after(LATER_S, lambda: None) for _ in range(1000)]
    assert threading.active_count() <= before + 1
    for deadline in waiting:
        deadline.cancel()
    assert len(deadlines._queue) < 100
