"""Settings that PostgreSQL reports by itself whenever they change."""

from typing import Final

from psycopg.pq.abc import PGconn

from catalog.connection.client_encoding import ClientEncoding

_REPORTED: Final = (
    "application_name",
    "client_encoding",
    "DateStyle",
    "default_transaction_read_only",
    "in_hot_standby",
    "integer_datetimes",
    "IntervalStyle",
    "is_superuser",
    "scram_iterations",
    "search_path",
    "server_encoding",
    "server_version",
    "session_authorization",
    "standard_conforming_strings",
    "TimeZone",
)
"""Settings PostgreSQL 18 reports by ParameterStatus."""

_REPORTED_BYTES: Final = tuple(name.encode() for name in _REPORTED)


class ParameterStatuses:
    """What libpq has heard of the settings of one connection."""

    def __init__(self, connection: PGconn, encoding: ClientEncoding) -> None:
        self._connection = connection
        self._encoding = encoding
        self._values: list[bytes | None] = []
        self.known: dict[str, str] = {}
        """Every reported setting, as it was when last looked at."""

    def read(self) -> dict[str, str]:
        """Return every reported setting; the same mapping again until one changes."""
        values = [self._connection.parameter_status(name) for name in _REPORTED_BYTES]
        if values != self._values:
            # PostgreSQL does not report a value anew because the client has another encoding now.
            before = dict(zip(_REPORTED, self._values, strict=False))
            known = self.known
            self.known = {
                name: known[name] if before.get(name) == value else self._encoding.decode(value)
                for name, value in zip(_REPORTED, values, strict=True)
                if value is not None
            }
            self._values = values
        return self.known
