"""Names of journals in refusals of PostgreSQL's, where it was not the statement that named them.

A view or a prepared statement has the table that stands for a journal, whose name is a number. Only
PostgreSQL knows whose journal that is, and not by a transaction that has failed.
"""

import logging
import re
from typing import Final

from catalog.errors import GatewayError
from catalog.pg import sqlstate as codes
from catalog.session import journal_names
from pgwire_gateway.session.services import Services

logger = logging.getLogger(__name__)

_REFUSED: Final = re.compile(r"permission denied for table (journal_(\d{1,10}))")
"""PostgreSQL's own words; what code of users raises stays as it is."""


def named(services: Services, database: str, error: GatewayError) -> GatewayError:
    """Return an error that refuses a journal, with the name by which clients know it."""
    found = _REFUSED.fullmatch(error.message)
    if error.sqlstate != codes.INSUFFICIENT_PRIVILEGE or found is None:
        return error
    try:
        administrator = services.catalog.admin(database)
        try:
            name = journal_names.name_of(administrator, int(found[2]))
        finally:
            administrator.close()
    except GatewayError as failure:
        logger.warning("a refusal does not tell which journal it is about: %s", failure)
        return error
    if name is not None:
        error.message = error.message.replace(found[1], name)
    return error
