"""Steps that go with the next ones that are run together."""

from typing import Final

from catalog.connection.steps import Close, Query, Step

_BEGIN: Final = Query("BEGIN")

_MOST: Final = 100
"""Statements that wait for being closed."""


class DueSteps:
    """What is to be run with what is run next, and before it; nothing of it can fail."""

    def __init__(self) -> None:
        self._steps: list[Step] = []
        self.begins = False
        """Whether BEGIN is among them."""

    @property
    def presses(self) -> bool:
        """Whether they have to come before whatever is run next."""
        return any(not isinstance(step, Close) for step in self._steps)

    @property
    def are_many(self) -> bool:
        """Whether they are too many to wait any longer."""
        return len(self._steps) > _MOST

    def add(self, step: Step) -> None:
        """Have a step run next."""
        self._steps.append(step)

    def add_begin(self) -> None:
        """Have a transaction block begin next."""
        self.add(_BEGIN)
        self.begins = True

    def leave_out(self, step: Step) -> bool:
        """Do not run it after all; False when it is not among them."""
        if step not in self._steps:
            return False
        self._steps.remove(step)
        return True

    def take(self) -> list[Step]:
        """Return all of them, which are sent now."""
        steps, self._steps, self.begins = self._steps, [], False
        return steps
