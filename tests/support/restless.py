"""The gateway's command, with upkeep that lets no table rest.

``python -m tests.support.restless serve …``: tables become tiered while they are being written, as
soon as they are large or are asked to, files are merged as soon as there are some, and upkeep looks
all the time. Its log tells when a change of residency begins, and when it is over, whatever came of
it.
"""

import logging
from collections.abc import Callable
from typing import TypeVar

from pgwire_gateway.cli import main
from pgwire_gateway.upkeep import cold_tables, flusher, residency, unread_files

BEGINS = "a change of residency begins"

IS_OVER = "a change of residency is over"

_Result = TypeVar("_Result")

logger = logging.getLogger(residency.__name__)


def told(change: Callable[..., _Result]) -> Callable[..., _Result]:
    """Log that a change begins, and that it is over."""

    def change_and_tell(*arguments: object) -> _Result:
        logger.info(BEGINS)
        try:
            return change(*arguments)
        finally:
            logger.info(IS_OVER)

    return change_and_tell


def hurry() -> None:
    """Take away the pauses of upkeep, and let it wait for writers instead."""
    residency.BULK_WRITERS = 1_000_000
    residency.LOCK_WAIT_MS = 1_000
    flusher.PAUSE_S = 0.2
    flusher.VISIT_S = 0.2
    cold_tables.NAP_S = 0.2
    cold_tables.MOST_SEGMENTS = 4  # type: ignore[misc]
    unread_files.PAUSE_S = 1.0
    residency.Residency._freeze = told(residency.Residency._freeze)  # type: ignore[method-assign]
    residency.Residency._thaw = told(residency.Residency._thaw)  # type: ignore[method-assign]


if __name__ == "__main__":
    hurry()
    raise SystemExit(main())
