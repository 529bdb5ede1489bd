"""Open libpq connections, and say what PostgreSQL said when it refuses one."""

import re
import select
import time
from collections.abc import Mapping
from typing import Final

from psycopg import pq
from psycopg.conninfo import make_conninfo
from psycopg.pq.abc import PGconn

from catalog.errors import CatalogError, CatalogUnavailableError
from catalog.pg import sqlstate

_TIMEOUT_S: Final = 30.0

_REFUSALS: Final = (
    (r"role \".*\" does not exist", sqlstate.INVALID_AUTHORIZATION_SPECIFICATION),
    (r"role \".*\" is not permitted to log in", sqlstate.INVALID_AUTHORIZATION_SPECIFICATION),
    (r"password authentication failed", sqlstate.INVALID_PASSWORD),
    (r"no pg_hba.conf entry", sqlstate.INVALID_AUTHORIZATION_SPECIFICATION),
    (r"database \".*\" does not exist", sqlstate.INVALID_CATALOG_NAME),
    (r"permission denied for database", sqlstate.INSUFFICIENT_PRIVILEGE),
    (r"database \".*\" is not currently accepting connections", "55000"),
    (r"cannot connect to invalid database", "55000"),
    (r"too many (connections|clients)|remaining connection slots", "53300"),
    (r"unrecognized configuration parameter", "42704"),
    (r"permission denied to set parameter", sqlstate.INSUFFICIENT_PRIVILEGE),
    (r"parameter \".*\" (cannot be|can only be)", "55P02"),
    (r"invalid value for parameter|is outside the valid range|requires a", "22023"),
    (r"the database system is", sqlstate.CANNOT_CONNECT_NOW),
)
"""libpq reports a refusal as text only: what the text says, to the SQLSTATE it came with."""


def options_of(settings: Mapping[str, str]) -> str:
    """Return settings in the form of the startup packet's ``options``."""
    return " ".join(
        "-c " + re.sub(r"([\\\s])", r"\\\1", f"{name}={value}") for name, value in settings.items()
    )


def connect(parameters: Mapping[str, str]) -> PGconn:
    """Connect with libpq's parameters.

    Raises:
        CatalogError: what the server reported.
        CatalogUnavailableError: 57P03 when the server cannot be reached.
    """
    connection = pq.PGconn.connect_start(make_conninfo(**parameters).encode())
    deadline = time.monotonic() + _TIMEOUT_S
    while True:
        if connection.status == pq.ConnStatus.BAD:
            raise _refusal(connection)
        status = connection.connect_poll()
        if status == pq.PollingStatus.OK:
            return connection
        if status == pq.PollingStatus.FAILED:
            raise _refusal(connection)
        poll = select.poll()
        poll.register(
            connection.socket,
            select.POLLIN if status == pq.PollingStatus.READING else select.POLLOUT,
        )
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            connection.finish()
            raise CatalogUnavailableError("the catalog does not answer")


def _refusal(connection: PGconn) -> CatalogError | CatalogUnavailableError:
    text = connection.get_error_message().strip()
    connection.finish()
    found = re.search(r"(FATAL|ERROR|PANIC):\s+(.*)", text, re.DOTALL)
    if found is None:
        return CatalogUnavailableError("the catalog cannot be reached", detail=text)
    message, *rest = found[2].splitlines()
    parts = {line.partition(":")[0]: line.partition(":")[2].strip() for line in rest}
    code = next(
        (code for pattern, code in _REFUSALS if re.search(pattern, message)),
        sqlstate.CONNECTION_FAILURE,
    )
    if code == sqlstate.CANNOT_CONNECT_NOW:
        return CatalogUnavailableError(message, detail=parts.get("DETAIL"), hint=parts.get("HINT"))
    return CatalogError(
        message,
        sqlstate=code,
        detail=parts.get("DETAIL"),
        hint=parts.get("HINT"),
        fields={"S": "FATAL", "V": "FATAL"},
    )
