"""Row versions inlined in the catalog: capture of inserted rows, appends, drained loads."""

import json
from collections.abc import Iterator, Sequence

from psycopg.pq.abc import PGresult

from catalog.bookkeeping import calls as bookkeeping
from catalog.bookkeeping.calls import Bookkeeping, value_of
from catalog.connection.backend import Backend
from catalog.connection.libpq_results import chunk_rows, rows_of
from catalog.connection.steps import Query, Step
from catalog.errors import CatalogError
from catalog.pg import sqlstate
from catalog.results import CaptureReceipt, DrainedRows, LocalResult, Row

# Transfer forms do not depend on the client's settings; the texts of other types do.
PLAIN_SETTINGS = (
    ("datestyle", "ISO"),
    ("intervalstyle", "postgres"),
    ("timezone", "UTC"),
    ("bytea_output", "hex"),
    ("extra_float_digits", "1"),
)


def receipt(answer: bytes) -> CaptureReceipt:
    """Return the receipt of the catalog's answer."""
    document = json.loads(answer)
    return CaptureReceipt(
        count=document["count"],
        captured=document["captured"],
        version=document["version"],
        unresolved=tuple(tuple(key) for key in document.get("unresolved") or ()),
        tail_outdated=document.get("tail_outdated", False),
        values=tuple(document.get("values") or ()),
    )


def capture_steps(
    calls: Bookkeeping, relid: int, inline_rows: int, inline_bytes: int
) -> list[Step]:
    """Return the steps that capture the rows of the INSERT or COPY before them, if they are few."""
    limits = (str(inline_rows).encode(), str(inline_bytes).encode())
    return calls.steps(bookkeeping.CAPTURE, str(relid).encode(), *limits)


def answer_of(backend: Backend, result: PGresult, rows: Iterator[Row]) -> LocalResult:
    """Return the answer of a client's statement whose rows have been taken from its result."""
    return LocalResult(
        columns=backend.columns(result, is_clients=True) or None,
        rows=rows,
        command_tag=backend.decode(result.command_status or b""),
    )


def require_all(answer: LocalResult, found: CaptureReceipt) -> None:
    """Refuse an INSERT of whose rows fewer were found than it tells.

    Raises:
        CatalogError: XX001.
    """
    command, _, count = (answer.command_tag or "").rpartition(" ")
    if command == "INSERT 0" and found.count < int(count):
        raise CatalogError(
            f"the journal got {found.count} row versions of {count} by INSERT",
            sqlstate=sqlstate.DATA_CORRUPTED,
            detail="Nothing has been changed.",
        )


def drain(backend: Backend, calls: Bookkeeping, relid: int) -> DrainedRows:
    """Open the rows of a catalog table for reading, as CSV in transfer forms."""
    names = ", ".join(f"current_setting('{name}')" for name, _ in PLAIN_SETTINGS)
    saved = calls.run_all(
        [
            Query(f"SELECT {names}", internal=True),
            _settings([value for _, value in PLAIN_SETTINGS]),
            *calls.steps(bookkeeping.OPEN_DRAIN, str(relid).encode()),
        ]
    )
    restored = [(value or b"").decode() for value in next(rows_of(saved[0]))]
    attnums, row_bytes = json.loads(value_of(saved[-1]))
    return DrainedRows(tuple(attnums), _lines(backend, restored, chunk_rows(row_bytes)))


def _lines(backend: Backend, restored: Sequence[str], at_once: int) -> Iterator[bytes]:
    fetch = "FETCH ALL FROM pgwire_drain"
    rows = backend.stream(Query(fetch, result_format=1, internal=True, chunk_rows=at_once)).rows
    lines: list[bytes] = []
    for row in rows:
        lines.append(row[0] or b"")
        if len(lines) == at_once:
            yield b"".join(lines)
            lines.clear()
    if lines:
        yield b"".join(lines)
    backend.run_all([Query("CLOSE pgwire_drain", internal=True), _settings(restored)])


def _settings(values: Sequence[str]) -> Query:
    calls = ", ".join(
        f"set_config('{name}', ${i + 1}, true)" for i, (name, _) in enumerate(PLAIN_SETTINGS)
    )
    return Query(f"SELECT {calls}", [value.encode() for value in values], internal=True)


def encode_rows(rows: Sequence[Sequence[str | None]]) -> bytes | None:
    """Return rows as the JSON append takes; None for none."""
    return json.dumps(rows).encode() if rows else None
