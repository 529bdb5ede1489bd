"""One search of a table after the other, as long as nobody waits for long."""

import threading
import time

import pytest

from catalog.hot.thawing import Thawing
from catalog.session.connections import CatalogSession


def unconnected() -> CatalogSession:
    raise AssertionError


def unhurried() -> None:
    pass


@pytest.fixture
def thawing() -> Thawing:
    return Thawing(unconnected)


def test_who_is_alone_does_not_wait(thawing: Thawing) -> None:
    with thawing.one_search(1, unhurried) as waited, thawing.one_search(2, unhurried) as other:
        assert (waited, other) == (False, False)


def test_the_next_one_is_told_that_it_has_waited(thawing: Thawing) -> None:
    begun, done = threading.Event(), threading.Event()

    def search() -> None:
        with thawing.one_search(1, unhurried):
            begun.set()
            done.wait()

    thread = threading.Thread(target=search)
    thread.start()
    begun.wait()
    with thawing.one_search(1, done.set) as waited:
        assert waited
        thread.join()
        with pytest.raises(InterruptedError), thawing.one_search(1, interrupted):
            pass
    with thawing.one_search(1, unhurried) as waited:
        assert not waited


def interrupted() -> None:
    raise InterruptedError


def test_nobody_waits_for_long(thawing: Thawing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catalog.hot.thawing.SEARCH_S", 0.3)
    with thawing.one_search(1, unhurried):
        began = time.monotonic()
        with thawing.one_search(1, unhurried) as waited:
            assert waited
            assert time.monotonic() - began >= 0.3
        # It holds nothing that it could have given back.
        with pytest.raises(InterruptedError), thawing.one_search(1, interrupted):
            pass
