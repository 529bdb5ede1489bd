"""The base error of all packages: what an ErrorResponse carries, chosen where it is raised."""

import re
from collections.abc import Mapping
from typing import Final

from catalog.pg import sqlstate as codes


class GatewayError(Exception):
    """A failure a client sees as an ErrorResponse with its SQLSTATE.

    Attributes mirror the fields of section "Error and Notice Message Fields" of PostgreSQL's
    protocol chapter. ``position`` counts characters of the statement from 1. ``fields`` holds the
    remaining one-letter fields verbatim (schema ``s``, table ``t``, column ``c``, constraint ``n``,
    where ``W``, …).
    """

    sqlstate: str = codes.INTERNAL_ERROR

    def __init__(  # noqa: PLR0913 — as many as an ErrorResponse has
        self,
        message: str,
        *,
        sqlstate: str | None = None,
        detail: str | None = None,
        hint: str | None = None,
        position: int | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        if sqlstate is not None:
            self.sqlstate = sqlstate
        self.detail = detail
        self.hint = hint
        self.position = position
        self.fields = dict(fields or {})


class CatalogError(GatewayError):
    """An error PostgreSQL reported, with all its fields."""


class OutdatedPlanError(GatewayError):
    """Definitions have changed since a statement was planned (SQLSTATE 40001).

    Nothing was written: whoever planned it can plan it again.
    """

    sqlstate = codes.SERIALIZATION_FAILURE


class OutdatedTransactionError(CatalogError):
    """Definitions have changed since a statement was planned, which has done something (40001).

    Whoever can roll that back can plan it again.
    """


class OutdatedAnswerError(GatewayError):
    """A table has become tiered while PostgreSQL answered for its rows (SQLSTATE 40001).

    Whoever has not passed the answer on can ask again.
    """

    sqlstate = codes.SERIALIZATION_FAILURE


class OutdatedSnapshotError(CatalogError):
    """A transaction's snapshot is older than what a statement needs, which has not run (40001).

    Whoever can take another snapshot can run it: of a transaction whose snapshot has been seen
    nobody can.
    """


class HotRowsError(GatewayError):
    """A table has hot rows, which a statement would rather write; nothing was done (40001)."""

    sqlstate = codes.SERIALIZATION_FAILURE


class CatalogUnavailableError(GatewayError):
    """The catalog's PostgreSQL cannot be reached or went away (SQLSTATE 57P03 or 08006)."""

    sqlstate = codes.CANNOT_CONNECT_NOW


class UnknownOutcomeError(CatalogUnavailableError):
    """The catalog went away when something may be there for good already (SQLSTATE 40003).

    It was committing, and nobody knows whether it has, or an external journal has got rows.
    """

    sqlstate = codes.STATEMENT_COMPLETION_UNKNOWN


def outdated_snapshot(error: CatalogError) -> OutdatedSnapshotError:
    """Return the same error, of a statement that has not run."""
    return OutdatedSnapshotError(
        error.message,
        sqlstate=error.sqlstate,
        detail=error.detail,
        hint=error.hint,
        position=error.position,
        fields=error.fields,
    )


def lost_with(fields: Mapping[str, str]) -> CatalogUnavailableError:
    """Return the error of a session that PostgreSQL has ended with these fields."""
    return CatalogUnavailableError(
        fields.get("M", ""),
        sqlstate=fields.get("C"),
        detail=fields.get("D"),
        hint=fields.get("H"),
        # Clients are told that it is fatal: of a crash PostgreSQL only warns, and hangs up.
        fields={code: text for code, text in fields.items() if code in "FLR"},
    )


DEFERRED: Final = "GW005"
"""SQLSTATE by which the bookkeeping tells that COMMIT has something left to be looked at."""

PROPOSED: Final = "GW006"
"""SQLSTATE by which the bookkeeping tells of a row that is proposed for insertion."""

_OWN_OBJECT: Final = re.compile(r"\bpg_journal\.")
"""What a line has that tells of an object of ours."""

DATA_TYPE_NAME: Final = "d"
"""Field of an error that names a data type."""

SEALED: Final = re.compile(r"[0-9a-f]{64} \{")
"""How the data type of an error begins that is told to the gateway alone (``sql``, sealed)."""


def told_code(code: str, data_type: str) -> str:
    """Return the SQLSTATE clients are told of an error with this one and this data type.

    A refusal of the gateway's is an assertion that failed until here, which code of users does not
    catch by WHEN OTHERS.
    """
    if code == codes.ASSERT_FAILURE and SEALED.match(data_type):
        return codes.FEATURE_NOT_SUPPORTED
    return code


def error_of(fields: Mapping[str, str]) -> CatalogError:
    """Return the error an ErrorResponse with these fields stands for."""
    rest = {code: text for code, text in fields.items() if code not in "CMDHP"}
    position, detail = fields.get("P"), fields.get("D")
    if detail is not None and fields.get("C") == codes.DEPENDENT_OBJECTS_STILL_EXIST:
        detail = "\n".join(line for line in detail.splitlines() if not _OWN_OBJECT.search(line))
    return CatalogError(
        fields.get("M", ""),
        sqlstate=told_code(fields.get("C", ""), fields.get(DATA_TYPE_NAME, "")) or None,
        detail=detail or None,
        hint=fields.get("H"),
        position=int(position) if position is not None else None,
        fields=rest,
    )
