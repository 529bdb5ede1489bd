"""Plans that are made again: as often as they are outdated, up to a bound."""

from typing import Any

import pytest

from catalog.errors import GatewayError, OutdatedPlanError
from pgwire_gateway.session import replanning


class Attempts:
    """Makes plans, numbered, of which the first ones are outdated when they are run."""

    def __init__(self, outdated: int) -> None:
        self.outdated = outdated
        self.made = 0

    def make(self) -> Any:
        """Return the next plan."""
        self.made += 1
        return self.made

    def run(self, plan: Any) -> str:
        """Run a plan."""
        if plan <= self.outdated:
            raise OutdatedPlanError("definitions have changed")
        return f"by plan {plan}"


def test_a_plan_is_made_again_until_it_holds() -> None:
    attempts = Attempts(outdated=3)
    assert replanning.as_defined(attempts.make, attempts.run) == "by plan 4"
    assert attempts.made == 4


def test_plans_are_not_made_for_ever() -> None:
    attempts = Attempts(outdated=10**6)
    with pytest.raises(GatewayError) as raised:
        replanning.as_defined(attempts.make, attempts.run)
    assert raised.value.sqlstate == "40001"
    assert attempts.made == replanning.ATTEMPTS


def test_other_errors_are_told() -> None:
    attempts = Attempts(outdated=0)

    def fail(_: Any) -> str:
        raise GatewayError("wrong", sqlstate="22012")

    with pytest.raises(GatewayError, match="wrong"):
        replanning.as_defined(attempts.make, fail)
    assert attempts.made == 1
