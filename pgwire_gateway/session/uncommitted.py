"""Data files of tables that a transaction made and did not commit: they go when it has ended."""

import logging
from collections.abc import Mapping

from catalog.errors import GatewayError
from catalog.upkeep import vacuum
from pgwire_gateway.session.services import Services

logger = logging.getLogger(__name__)


def remove(services: Services, database: str, made: Mapping[int, str]) -> None:
    """Remove the directories of tables, by OID, that do not exist and never will.

    Where that cannot be told they are left to VACUUM.
    """
    try:
        administrator = services.catalog.admin(database)
    except GatewayError as error:
        logger.warning("files of transactions that ended are left to VACUUM: %s", error)
        return
    try:
        possible = vacuum.possible(administrator, made)
    finally:
        administrator.close()
    for relid, location in made.items():
        if relid not in possible:
            services.warehouse.remove(location)
