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


def require_rows(table: JournalTable, held: int, found: int) -> None:
    """Refuse that a table's journal has fewer or more rows than PostgreSQL holds.

    Args:
        table: Whose rows are about to leave PostgreSQL.
        held: How many it holds.
        found: How many current rows the journal has.

    Raises:
        GatewayError: XX001.
    """
    if held != found:
        raise GatewayError(
            f'the journal of table "{table.name}" has {found} of its {held} rows',
            sqlstate=sqlstate.DATA_CORRUPTED,
            detail="Its rows stay in PostgreSQL.",
            hint="SELECT gateway.check('...') compares all of them.",
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
