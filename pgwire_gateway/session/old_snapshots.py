"""Snapshots of transactions that are older than what the first statement in them needs.

Above READ COMMITTED others fail a statement that have changed something between its analysis, which
takes the snapshot, and its locks; upkeep is one of them, when it lets rows go cold. As long as
nothing has run by a snapshot nobody has seen it, and the transaction can be begun again.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from catalog.errors import CatalogError, OutdatedTransactionError, outdated_snapshot
from catalog.pg import sqlstate


@contextmanager
def before_running() -> Iterator[None]:
    """Say of a conflict, while a table is locked or what is written announced, that none has run.

    Raises:
        OutdatedSnapshotError: 40001.
    """
    try:
        yield
    except OutdatedTransactionError:
        raise
    except CatalogError as error:
        if error.sqlstate != sqlstate.SERIALIZATION_FAILURE:
            raise
        raise outdated_snapshot(error) from error
