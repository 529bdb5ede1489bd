"""What the server says besides results: errors, notices, notifications, and why it hangs up.

Clients are told nothing that tells about the bookkeeping's functions.
"""

from collections.abc import Callable, Mapping
from typing import Final

from psycopg import pq
from psycopg.pq.abc import PGconn, PGresult

from catalog.connection import contexts
from catalog.connection.client_encoding import ClientEncoding
from catalog.connection.libpq_results import OK
from catalog.errors import CatalogError, CatalogUnavailableError, error_of, lost_with
from catalog.pg import sqlstate
from catalog.results import Notification

_FIELD_CODES: Final = tuple((field, chr(field)) for field in pq.DiagnosticField)

_LAST_WORDS: Final = frozenset({"FATAL", "PANIC"})
"""Severities after which the server hangs up."""

_FINITE: Final = "pgwire_finite_"
"""Beginning of the names of the tails' constraints."""


class ServerMessages:
    """Errors, notices and notifications of one connection."""

    def __init__(self, connection: PGconn, encoding: ClientEncoding) -> None:
        self._connection = connection
        self._connection.notice_handler = self._on_notice
        self._encoding = encoding
        self._last_words: dict[str, str] | None = None
        """What the server said when it ended the session."""
        self.hides_copy = False
        """Whether nothing is to tell that there is a COPY."""
        self.on_notice: Callable[[Mapping[str, str]], None] = _ignore
        self.on_notification: Callable[[Notification], None] = _ignore

    def fields(self, result: PGresult) -> dict[str, str]:
        """Return the fields of an error or a notice by their codes, as clients may see them."""
        fields = {}
        for field, code in _FIELD_CODES:
            value = result.error_field(field)
            if value is not None:
                fields[code] = self._encoding.decode(value)
        if self.hides_copy and "W" in fields:
            fields["W"] = contexts.without_copy(fields["W"])
            if not fields["W"]:
                del fields["W"]
        return _without_own(fields)

    def check(self, result: PGresult, *, internal: bool) -> None:
        """Raise what a result says that is not one of success.

        Args:
            result: What the server has answered.
            internal: Whether a call of ours was, whose error context is not for clients.
        """
        if result.status in OK:
            return
        fields = self.fields(result)
        if fields.get("V") in _LAST_WORDS:
            raise self.lost()
        if "C" not in fields:
            if result.status in {pq.ExecStatus.COPY_IN, pq.ExecStatus.COPY_OUT}:
                raise CatalogError("unexpected COPY", sqlstate=sqlstate.PROTOCOL_VIOLATION)
            raise self.lost()
        if fields.get("n", "").startswith(_FINITE) and fields.get("s") == "pg_journal":
            raise CatalogError(
                "infinite dates, timestamps after 294247-01-10, NaN in numeric(p,s) and arrays "
                "that are not of one dimension counted from 1 are not supported on journaled "
                "tables",
                sqlstate=sqlstate.FEATURE_NOT_SUPPORTED,
            )
        if internal:
            fields = {
                code: text for code, text in fields.items() if code not in contexts.OWN_FIELDS
            }
        raise error_of(fields)

    def note_failure(self, result: PGresult) -> None:
        """Keep what the server says before it hangs up, if this is that."""
        self._note_last_words(self.fields(result))

    def lost(self) -> CatalogUnavailableError:
        """Return the error that the connection is gone, in the server's last words if it had any.

        The SQLSTATE is theirs, or 08006.
        """
        if self._last_words is not None:
            return lost_with(self._last_words)
        return CatalogUnavailableError(
            "the connection to the catalog was lost",
            sqlstate=sqlstate.CONNECTION_FAILURE,
            detail=self._connection.get_error_message().strip() or None,
        )

    def deliver_notifications(self) -> None:
        """Hand over the notifications that libpq has found among what it has read."""
        decode = self._encoding.decode
        while (found := self._connection.notifies()) is not None:
            self.on_notification(
                Notification(found.be_pid, decode(found.relname), decode(found.extra))
            )

    def _on_notice(self, result: PGresult) -> None:
        # The result is only valid in here.
        fields = self.fields(result)
        if not self._note_last_words(fields):
            self.on_notice(fields)

    def _note_last_words(self, fields: dict[str, str]) -> bool:
        is_last = fields.get("V") in _LAST_WORDS or fields.get("R") == contexts.CRASH_ROUTINE
        if is_last:
            self._last_words = fields
        return is_last


def _without_own(fields: dict[str, str]) -> dict[str, str]:
    """Leave out of an error or notice what tells about functions of the bookkeeping."""
    context = fields.get("W", "")
    if not contexts.is_own(context):
        return fields
    kept = contexts.clients_part(context)
    if kept is None:
        return {code: text for code, text in fields.items() if code not in contexts.OWN_FIELDS}
    return fields | {"W": kept}


def _ignore(_: object) -> None:
    """Drop a notice or notification nobody asked for."""
