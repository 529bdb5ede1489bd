"""The laws that no row version is lost, as errors that say which one was broken.

As many are in the files written as were read for them: that is looked at before anything is
published, so a violation leaves the table as it was. Hot rows are what the journal says.
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


def require_equal(relid: int, differing: int) -> None:
    """Refuse hot rows that are not what their journal says.

    Args:
        relid: The table whose rows were compared.
        differing: How many of them are not.

    Raises:
        GatewayError: XX001.
    """
    if differing:
        raise GatewayError(
            f"{differing} hot rows of table {relid} are not what its journal says",
            sqlstate=sqlstate.DATA_CORRUPTED,
            hint="Its rows stay hot. SELECT gateway.check('...') compares all of them.",
        )
