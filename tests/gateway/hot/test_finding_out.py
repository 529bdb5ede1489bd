"""Statements that find out by what they do first whether their plan holds, and what limits them."""

from types import SimpleNamespace
from typing import Any

import pytest

from catalog.hot.hot_keys import Writing
from pgwire_gateway.hot import hot_rows, single_trips
from pgwire_gateway.planning.plans import Route

COLD = Writing(1, (("7",),))
REMEMBERED = Writing(1, (("7",),), heats=3)


def invocation(route: Route, **changes: Any) -> Any:
    plan = {"basis": object(), "route": route, "seeks": False, "takes": False, "leaves": None}
    return SimpleNamespace(plan=SimpleNamespace(**{**plan, "is_external": False, **changes}))


@pytest.fixture(autouse=True)
def cold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(single_trips, "expected", lambda _: COLD)
    monkeypatch.setattr(hot_rows, "_is_cold", lambda *_: True)


@pytest.mark.parametrize("route", [Route.CHANGE, Route.MERGE, Route.THAW, Route.READ])
def test_who_announces_rows_that_are_cold_does(route: Route) -> None:
    assert hot_rows.finds_out(invocation(route))


def test_who_inserts_looks_for_keys_later() -> None:
    assert not hot_rows.finds_out(invocation(Route.INSERT))


@pytest.mark.parametrize(
    "changes",
    [{"basis": None}, {"seeks": True}, {"takes": True}, {"is_external": True}, {"leaves": ()}],
)
def test_who_does_something_else_first_does_not(changes: dict[str, Any]) -> None:
    assert not hot_rows.finds_out(invocation(Route.CHANGE, **changes))


def test_who_searches_by_a_condition_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(single_trips, "expected", lambda _: REMEMBERED)
    assert not hot_rows.finds_out(invocation(Route.CHANGE))
