"""The law that no row version is lost: as many are in the files written as were read for them.

It is looked at before anything is published, so a violation leaves the table as it was.
"""

from collections.abc import Iterable

from catalog.errors import GatewayError
from catalog.model import JournalTable, Segment
from catalog.pg import sqlstate


def require_all(table: JournalTable, read: int, written: Iterable[Segment]) -> None:
    """Refuse files that hold fewer or more row versions than were read for them.

    Args:
        table: Whose row versions they are.
        read: How many there were to be written.
        written: What their files say that they hold.

    Raises:
        GatewayError: XX001.
    """
    found = sum(segment.rows for segment in written)
    if found != read:
        raise GatewayError(
            f'files of table "{table.name}" hold {found} row versions of {read}',
            sqlstate=sqlstate.DATA_CORRUPTED,
            detail="Nothing has been changed.",
        )
