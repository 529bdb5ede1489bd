"""The gateway's command, with upkeep that looks after tables often.

``python -m tests.support.attentive serve …``: what upkeep decides, and in which order, is as in
``pgwire_gateway``; tests that wait for it, or until it would have done something, wait less. Nor do
they wait for the disk.
"""

from pgwire_gateway.cli import main
from pgwire_gateway.upkeep import flusher, hot_tables, residency
from tests.support import prepared_catalogs, unsynced

PAUSE_S = 0.5
"""Least time between two looks at a database that is written to."""

VISIT_S = 1.0
"""Time between two looks at one that nobody tells of; each look takes 7 ms of a processor."""

REST_S = 3.0
"""A table that is written by many is at rest when it has not been written for this long."""


def hurry() -> None:
    """Shorten the pauses of upkeep."""
    flusher.PAUSE_S = PAUSE_S
    flusher.VISIT_S = VISIT_S
    hot_tables.PAUSE_S = PAUSE_S  # type: ignore[misc]
    residency.REST_S = REST_S


if __name__ == "__main__":
    hurry()
    unsynced.apply()
    prepared_catalogs.draw_keys()
    raise SystemExit(main())
