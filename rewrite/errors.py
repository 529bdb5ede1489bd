"""Errors of the rewriter: constructs it refuses, and values it cannot represent."""

from catalog.errors import GatewayError
from catalog.pg import sqlstate


class RewriteError(GatewayError):
    """Base of all errors the rewriter raises."""


class UnsupportedError(RewriteError):
    """A construct is refused: nothing here does it as PostgreSQL would (SQLSTATE 0A000).

    Nothing is passed to Spark in the hope that it means the same, so whatever no table names ends
    here, too.
    """

    sqlstate = sqlstate.FEATURE_NOT_SUPPORTED


class RowSecurityError(RewriteError):
    """A journal is read by a role to whom row security of its table applies (SQLSTATE 42501)."""

    sqlstate = sqlstate.INSUFFICIENT_PRIVILEGE

    def __init__(self, name: str) -> None:
        super().__init__(
            f'query would be affected by row-level security policy for table "{name}"',
            detail="A journal also has versions of rows that the policies of its table hide.",
        )


class UnsupportedCollationError(UnsupportedError):
    """A collation by which Spark cannot compare; only the catalog knows its name."""

    def __init__(self, oid: int) -> None:
        super().__init__(f"collation {oid} is not supported")
        self.oid = oid

    def named(self, name: str) -> UnsupportedError:
        """Return the same error with the collation's name."""
        return UnsupportedError(
            f'collation "{name}" is not supported', detail=self.detail, hint=self.hint
        )


class UnsupportedFunctionError(UnsupportedError):
    """A function of users, which Spark does not know; only the catalog knows its name."""

    def __init__(self, oid: int) -> None:
        super().__init__(f"calling function {oid} is not supported")
        self.oid = oid

    def named(self, signature: str) -> UnsupportedError:
        """Return the same error with the function's name and the types of its arguments."""
        return UnsupportedError(
            f"calling function {signature} is not supported", detail=self.detail, hint=self.hint
        )
