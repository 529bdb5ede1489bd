"""The gateway's command, with upkeep that lets no table rest.

``python -m tests.support.restless serve …``: tables become tiered while they are being written, as
soon as they are large or are asked to, and upkeep looks all the time.
"""

from pgwire_gateway.cli import main
from pgwire_gateway.session import flusher, residency


def hurry() -> None:
    """Take away the pauses of upkeep, and let it wait for writers instead."""
    residency.BULK_WRITERS = 1_000_000
    residency.LOCK_WAIT_MS = 1_000
    flusher.PAUSE_S = 0.2
    flusher.VISIT_S = 0.2


if __name__ == "__main__":
    hurry()
    raise SystemExit(main())
