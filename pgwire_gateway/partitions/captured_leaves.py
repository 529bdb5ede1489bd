"""Rows that PostgreSQL has put into tiered leaves of a partitioned table, on to their journals."""

from collections.abc import Iterable

from catalog.results import CaptureReceipt
from pgwire_gateway.rows.journal_writes import JournalWriter
from pgwire_gateway.session.invocation import Invocation


def capture(call: Invocation, tiered: Iterable[int]) -> list[CaptureReceipt]:
    """Have the journals of tiered leaves take the rows that PostgreSQL has put there."""
    relids = list(tiered)
    # First: where rows are many, that leaf alone is announced as written when they are settled.
    receipts = [call.session.catalog.journals.capture(relid, *call.inline) for relid in relids]
    if not all(receipt.captured for receipt in receipts):
        call.session.watch_from_now(call.running, call.statement.text)
    for relid, receipt in zip(relids, receipts, strict=True):
        JournalWriter(call.session, relid, call.running).settle(receipt)
    return receipts
