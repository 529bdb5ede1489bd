"""Waiting for what another thread is about to do."""

import time
from collections.abc import Callable
from typing import Final

PATIENCE_S: Final = 60.0
"""How long something may take that is sure to happen."""

_LOOK_S: Final = 0.02


def wait_until(condition: Callable[[], object], timeout_s: float = PATIENCE_S) -> bool:
    """Return whether a condition holds before some time is over, as soon as it does."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(_LOOK_S)
    return False
