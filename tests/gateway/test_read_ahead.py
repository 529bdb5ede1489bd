"""Reading ahead: the same items in order, few of them early, and no thread left behind."""

import threading
from collections.abc import Iterator

import pytest

from pgwire_gateway.read_ahead import ITEMS, ReadAhead


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "ahead"]


def test_items_come_in_order() -> None:
    assert list(ReadAhead(range(100), "ahead")) == list(range(100))


def test_none_is_an_item_like_any_other() -> None:
    assert list(ReadAhead([None, 1, None], "ahead")) == [None, 1, None]


def test_no_more_items_are_made_than_may_wait() -> None:
    made = threading.Semaphore(0)
    count = 0

    def source() -> Iterator[int]:
        nonlocal count
        for number in range(1000):
            count += 1
            made.release()
            yield number

    ahead = ReadAhead(source(), "ahead")
    for _ in range(ITEMS + 1):
        assert made.acquire(timeout=60)
    assert not made.acquire(timeout=0.5)
    assert count == ITEMS + 1
    ahead.close()
    assert threads() == []


def test_a_failure_comes_after_the_items_before_it() -> None:
    def source() -> Iterator[int]:
        yield 1
        raise ValueError("broken")

    taken = iter(ReadAhead(source(), "ahead"))
    assert next(taken) == 1
    with pytest.raises(ValueError, match="broken"):
        next(taken)


def test_closing_before_anything_is_taken_ends_the_thread() -> None:
    ReadAhead(range(1000), "ahead").close()
    assert threads() == []
