"""The laws that no row version is lost, as errors that say which one was broken.

As many are in the files written as were read for them, and as follow from what a statement reports:
that is looked at before anything is published, so a violation leaves the table as it was. Hot rows
are what the journal says.
"""

from collections.abc import Iterable, Sequence

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


def require_told(table: JournalTable, told: int, written: int) -> None:
    """Refuse that a statement writes fewer or more row versions than it is about to report.

    Args:
        table: What it changes.
        told: How many follow from the rows of its command tag.
        written: How many go to the journal.

    Raises:
        GatewayError: XX001.
    """
    if written != told:
        raise GatewayError(
            f'journal of table "{table.name}" would get {written} row versions of {told} by this'
            " statement",
            sqlstate=sqlstate.DATA_CORRUPTED,
            detail="Nothing has been changed.",
        )


def require_returned(table: JournalTable, put: int, returned: int) -> None:
    """Refuse that fewer or more rows come back from where they have waited than were put there.

    Args:
        table: Where they are to go.
        put: How many rows have waited.
        returned: How many have come back.

    Raises:
        GatewayError: XX001.
    """
    if returned != put:
        raise GatewayError(
            f'{returned} of {put} rows for table "{table.name}" came back from where they waited',
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


def require_equal(relid: int, name: str, differing: Sequence[Sequence[str]]) -> None:
    """Refuse hot rows that are not what their journal says.

    Args:
        relid: The table whose rows were compared.
        name: Its name.
        differing: The keys of those that are not.

    Raises:
        GatewayError: XX001.
    """
    if differing:
        key = ", ".join(differing[0])
        raise GatewayError(
            f"{len(differing)} hot rows of table {relid} are not what its journal says,"
            f" such as that of {name} with key ({key})",
            sqlstate=sqlstate.DATA_CORRUPTED,
            hint="Its rows stay hot. SELECT gateway.check('...') compares all of them.",
        )


def require_same(table: JournalTable, differing: Sequence[Sequence[str]]) -> None:
    """Refuse that a table's journal has other rows than PostgreSQL holds.

    Args:
        table: Whose rows are about to leave PostgreSQL.
        differing: Keys of rows that were found to be others.

    Raises:
        GatewayError: XX001.
    """
    if differing:
        key = ", ".join(differing[0])
        raise GatewayError(
            f'the journal of table "{table.name}" has another row with key ({key}) than PostgreSQL',
            sqlstate=sqlstate.DATA_CORRUPTED,
            detail="Its rows stay in PostgreSQL.",
            hint="SELECT gateway.check('...') compares all of them.",
        )
