"""A compaction that upkeep has overtaken is begun again, a few times."""

from typing import Any, cast

import pytest

from catalog.errors import GatewayError
from pgwire_gateway.spark.errors import QueryCanceledError
from pgwire_gateway.spark.statements import RunningStatement
from pgwire_gateway.upkeep import tails
from pgwire_gateway.upkeep.tails import MOST_COMPACTIONS, Tails


class Session:
    """One of which only the transaction matters."""

    def __init__(self) -> None:
        self.transaction = self
        self.rolled_back = 0

    def rollback(self) -> None:
        self.rolled_back += 1


class Overtaken(Tails):
    """Meets others so many times."""

    def __init__(self, times: int, sqlstate: str, running: RunningStatement | None = None) -> None:
        super().__init__(cast("Any", None), running or RunningStatement())
        self.times = times
        self.sqlstate = sqlstate
        self.tried = 0

    def _compacted_once(self, *_: object, **__: object) -> bool:
        self.tried += 1
        if self.tried <= self.times:
            raise GatewayError("could not replace segments", sqlstate=self.sqlstate)
        return True


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tails, "OVERTAKEN_S", 0.0)


def compacted(table: Overtaken) -> tuple[bool, int]:
    session = Session()
    done = table.compact(cast("Any", session), 1, is_full=False)
    return done, session.rolled_back


@pytest.mark.parametrize("sqlstate", ["40001", "55P03"])
@pytest.mark.parametrize("times", [0, 1, MOST_COMPACTIONS - 1])
def test_it_is_begun_again(times: int, sqlstate: str) -> None:
    table = Overtaken(times, sqlstate)
    assert compacted(table) == (True, times)
    assert table.tried == times + 1


def test_one_whose_segments_others_swap_again_and_again_is_left_to_them() -> None:
    table = Overtaken(MOST_COMPACTIONS + 1, "40001")
    assert compacted(table) == (True, MOST_COMPACTIONS)
    assert table.tried == MOST_COMPACTIONS


def test_one_that_others_keep_is_told() -> None:
    table = Overtaken(MOST_COMPACTIONS + 1, "55P03")
    with pytest.raises(GatewayError) as caught:
        compacted(table)
    assert caught.value.sqlstate == "55P03"
    assert table.tried == MOST_COMPACTIONS


def test_other_failures_are_told() -> None:
    with pytest.raises(GatewayError, match="could not replace"):
        compacted(Overtaken(1, "58030"))


def test_it_is_not_begun_again_for_a_cancelled_statement() -> None:
    running = RunningStatement()
    running.cancel()
    with pytest.raises(QueryCanceledError):
        compacted(Overtaken(1, "40001", running))
