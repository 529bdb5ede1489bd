"""Rows that PostgreSQL has put into tiered leaves of a partitioned table, on to their journals."""

from collections.abc import Iterable

from catalog.results import CaptureReceipt
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.journal_writes import JournalWriter


def capture(call: Invocation, tiered: Iterable[int]) -> list[CaptureReceipt]:
    """Have the journals of tiered leaves take the rows that PostgreSQL has put there."""
    receipts = []
    for relid in tiered:
        receipt = call.session.catalog.capture(relid, *call.inline)
        JournalWriter(call.session, relid, call.running).settle(receipt)
        receipts.append(receipt)
    return receipts
