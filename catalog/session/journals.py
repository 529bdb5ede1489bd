"""What is written into the journals of tables: row versions in tails, and lists of segments.

Whoever calls this has locked the table, or announced what it writes.
"""

import json
from collections.abc import Sequence

from catalog.bookkeeping import calls as bookkeeping
from catalog.bookkeeping import tail
from catalog.bookkeeping.calls import Bookkeeping, array, value_of
from catalog.bookkeeping.snapshots import encode_segments
from catalog.connection.backend import Backend
from catalog.failpoints import Failpoint, reach
from catalog.model import Segment, UniqueKey
from catalog.results import CaptureReceipt, DrainedRows, PendingCheck, PendingConstraints


class Journals:
    """The journals of a database, as one session writes them."""

    def __init__(self, backend: Backend, calls: Bookkeeping) -> None:
        """Write by calls of the bookkeeping on a connection."""
        self._backend = backend
        self._calls = calls

    def capture(self, relid: int, inline_rows: int, inline_bytes: int) -> CaptureReceipt:
        """Move rows an INSERT or COPY left in the catalog table to the tail, if they are few."""
        steps = tail.capture_steps(self._calls, relid, inline_rows, inline_bytes)
        return tail.receipt(value_of(self._calls.run_all(steps)[-1]))

    def drain(self, relid: int) -> DrainedRows:
        """Read the rows capture left in the catalog table; then call `clear_drained`."""
        return tail.drain(self._backend, self._calls, relid)

    def clear_drained(self, relid: int, *, ending: bool) -> None:
        """Empty the catalog table after its rows have been written to a segment.

        With `ending` the transaction is about to end: readers wait until it has.
        """
        self._calls.call(bookkeeping.CLEAR_DRAINED, _number(relid), b"t" if ending else b"f")

    def append(
        self,
        relid: int,
        version: int,
        rows: Sequence[Sequence[str | None]],
        tombstones: Sequence[Sequence[str | None]] = (),
        *,
        check_keys: bool = False,
    ) -> CaptureReceipt:
        """Write row versions to the tail through PostgreSQL's own constraint checks.

        Rows and tombstones list PostgreSQL's text of every live column in attribute-number order,
        then the row identity (None for keyed tables, or for new rows). All of a statement goes in
        one call.
        """
        answer = self._calls.call(
            bookkeeping.APPEND,
            _number(relid),
            _number(version),
            tail.encode_rows(rows),
            tail.encode_rows(tombstones),
            b"t" if check_keys else b"f",
        )
        return tail.receipt(answer)

    def thaw(self, relid: int, rows: Sequence[Sequence[str | None]]) -> bytes:
        """Put rows, told as in `append`, into a tiered table's catalog table; return their places.

        They are for one statement of this transaction, which has begun to write the table. Nothing
        is returned, and none is there, when one of them violates a constraint already.
        """
        encoded = tail.encode_rows(rows)
        return self._calls.call(bookkeeping.THAW, _number(relid), encoded) if encoded else b"{}"

    def publish(self, relid: int, version: int, segments: Sequence[Segment]) -> dict[str, int]:
        """Add the segments of a bulk write; return their numbers by path."""
        answer: dict[str, int] = json.loads(
            self._calls.call(
                bookkeeping.PUBLISH, _number(relid), _number(version), encode_segments(segments)
            )
        )
        reach(Failpoint.PUBLISHED)
        return answer

    def replace(  # noqa: PLR0913 - all that one swap is about
        self,
        relid: int,
        segments: Sequence[Segment],
        retired: Sequence[int],
        clear_tail_to: int | None,
        *,
        expected_state: str,
        seen: str | None = None,
        tail_read: int = 0,
    ) -> dict[str, int]:
        """Swap segments after a flush or compaction that read `expected_state`.

        Row versions written meanwhile are kept: only the tail up to `clear_tail_to` goes; of a
        resident table what the snapshot `seen` showed, whose newest version is `clear_tail_to`.
        These are to be `tail_read` row versions, which were read for the segments.

        Raises:
            CatalogError: 40001 when another flush or compaction, TRUNCATE or DDL came first, XX001
                when other row versions would go than were read.
        """
        epoch = int(expected_state.partition("_")[0])
        answer: dict[str, int] = json.loads(
            self._calls.call(
                bookkeeping.REPLACE,
                _number(relid),
                _number(epoch),
                encode_segments(segments),
                array(retired),
                _number(clear_tail_to) if clear_tail_to is not None else None,
                seen.encode() if seen is not None else None,
                _number(tail_read),
            )
        )
        return answer

    def emptied(
        self, named: Sequence[int], whole: Sequence[int], *, cascades: bool, locks: bool
    ) -> list[int] | None:
        """Return the relations that TRUNCATE empties; None where the role may not.

        Args:
            named: Those it names.
            whole: Those of them that are emptied with what is below them.
            cascades: Whether what references them is emptied, too.
            locks: Whether they are locked, in PostgreSQL's order; no others join them then.
        """
        how = (b"t" if asked else b"f" for asked in (cascades, locks))
        said = (array(named), array(whole), *how)
        relids: list[int] | None = json.loads(self._calls.call(bookkeeping.EMPTIED, *said))
        return relids

    def truncate(
        self, relid: int, version: int, ended: Sequence[Segment], *, tail_read: int
    ) -> None:
        """Leave a table without current rows; what it had becomes history.

        Args:
            relid: The table, locked by `JournalWrites.begin_write`.
            version: What that returned for it.
            ended: The row versions of the tail, and tombstones of all current rows.
            tail_read: How many row versions of the tail were read for them.

        Raises:
            CatalogError: XX001 when the tail has other row versions than were read.
        """
        self._calls.call(
            bookkeeping.TRUNCATE,
            _number(relid),
            _number(version),
            encode_segments(ended),
            _number(tail_read),
        )
        reach(Failpoint.PUBLISHED)

    def pending_constraints(self) -> list[PendingConstraints]:
        """Return the constraints that the rows of tables must still be checked for."""
        return [
            PendingConstraints(
                relid,
                tuple(key or ()),
                tuple(UniqueKey.told(*index) for index in unique or ()),
                tuple(PendingCheck(*check) for check in checks or ()),
                tuple(not_null or ()),
            )
            for relid, key, unique, checks, not_null in json.loads(
                self._calls.call(bookkeeping.PENDING_CONSTRAINTS)
            )
        ]

    def set_key(self, relid: int) -> None:
        """Complete a pending key after the rows were checked and re-keyed into a new base."""
        self._calls.call(bookkeeping.SET_KEY, _number(relid))

    def set_satisfied(self, relid: int) -> None:
        """Note that the rows of a table were checked for all its constraints but a pending key."""
        self._calls.call(bookkeeping.SET_SATISFIED, _number(relid))


def _number(value: int) -> bytes:
    return str(value).encode()
