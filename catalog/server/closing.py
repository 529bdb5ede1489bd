"""Close connections so that PostgreSQL has forgotten the session, too."""

import os
import select
import time
from contextlib import suppress
from typing import Final

from psycopg import OperationalError
from psycopg.pq.abc import PGconn

_DISCARDED_BYTES: Final = 1 << 16

_TIMEOUT_S: Final = 5.0
"""As long as DROP DATABASE waits for others to go."""


def finish(connection: PGconn) -> None:
    """Close a connection and wait until the server's process has ended.

    Until then PostgreSQL counts the session, and if it is a superuser's, DROP DATABASE … WITH
    (FORCE) by another role fails because of it.
    """
    try:
        # The server closes its end with the end of its process, which libpq does not wait for.
        descriptor = os.dup(connection.socket)
    except (OperationalError, OSError):
        connection.finish()
        return
    try:
        connection.finish()
        _wait_closed(descriptor)
    finally:
        os.close(descriptor)


def _wait_closed(descriptor: int) -> None:
    deadline = time.monotonic() + _TIMEOUT_S
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    with suppress(OSError):
        while (left := deadline - time.monotonic()) > 0 and poll.poll(left * 1000):
            if not os.read(descriptor, _DISCARDED_BYTES):
                return
