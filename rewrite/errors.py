"""Errors of the rewriter: constructs it refuses, and values it cannot represent."""

from catalog import sqlstate
from catalog.errors import GatewayError


class RewriteError(GatewayError):
    """Base of all errors the rewriter raises."""


class UnsupportedError(RewriteError):
    """A construct has no mapping with PostgreSQL's meaning (SQLSTATE 0A000).

    Nothing is passed to Spark in the hope that it means the same, so whatever no table names ends
    here.
    """

    sqlstate = sqlstate.FEATURE_NOT_SUPPORTED
