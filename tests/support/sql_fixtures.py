"""Statement files: read, run on PostgreSQL and on the gateway, and compared.

A file is a list of records parted by blank lines. The first line of a record says what it is, the
rest is one query string, sent as it stands by the simple query protocol:

``statement``
    Succeeds. ``query`` is the same for statements that return rows.
``error SQLSTATE``
    Fails with this SQLSTATE.
``gateway``
    Runs on the gateway only; the rows, columns joined by ``|``, follow after a line ``----``.
    ``gateway error SQLSTATE`` fails there.
``tiered``
    The tables named in it, one on a line, become tiered on the gateway before the next record.

Words may follow on the first line: ``ordered`` compares rows in their order, ``binary`` runs the
query once more by the extended protocol with results in binary format, ``on NAME`` uses another
connection of that name. A line ``<<`` begins the data of COPY FROM STDIN. Lines that begin with
``#`` are comments; the one before a record is its name. A record may begin with a line
``diverges [SQLSTATE]: reason``: then the gateway must not answer as PostgreSQL does, and with that
SQLSTATE if one is given.

Everything a client can see is compared: column names, type OIDs, type modifiers, values, command
tags, notices, the fields of errors and the transaction status after each query string.
"""

import itertools
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tests.support.statement_client import ERROR_FIELDS, Answer, Client

_KINDS = frozenset({"statement", "query", "error", "gateway", "tiered"})

_PATIENCE_S = 60.0
"""How long upkeep may take to make a table tiered."""

_DIVERGES = re.compile(r"diverges(?: ([0-9A-Z]{5}))?: (.+)")


@dataclass(frozen=True)
class Divergence:
    """A known difference from PostgreSQL."""

    reason: str
    sqlstate: str | None


@dataclass(frozen=True)
class Record:
    """One query string and what is to be seen."""

    line: int
    name: str
    kind: str
    sql: str
    sqlstate: str | None = None
    ordered: bool = False
    binary: bool = False
    connection: str = "main"
    copy_data: str | None = None
    rows: tuple[str, ...] = ()
    divergence: Divergence | None = None


def read(path: Path) -> list[Record]:
    """Return the records of a file.

    Raises:
        ValueError: a record is not understood.
    """
    records = []
    name = ""
    for start, block in _blocks(path.read_text(encoding="utf-8")):
        comments = list(itertools.takewhile(lambda line: line.startswith("#"), block))
        name = comments[-1][1:].strip() if comments else name
        if len(comments) == len(block):
            continue
        line = start + len(comments)
        try:
            records.append(_record(line, name, block[len(comments) :]))
        except (ValueError, StopIteration) as error:
            raise ValueError(f"{path}:{line}: {error}") from error
    return records


def _blocks(text: str) -> Iterator[tuple[int, list[str]]]:
    block: list[str] = []
    start = 1
    for number, line in enumerate([*text.splitlines(), ""], start=1):
        if line:
            block.append(line)
            continue
        if block:
            yield start, block
        block = []
        start = number + 1


def _record(line: int, name: str, block: list[str]) -> Record:
    divergence = None
    if found := _DIVERGES.fullmatch(block[0]):
        divergence = Divergence(found[2], found[1])
        block = block[1:]
    kind, *words = block[0].split()
    if kind not in _KINDS:
        raise ValueError(f"unknown kind of record: {kind}")
    record = Record(line, name, kind, "", divergence=divergence)
    record = _with_words(record, ["error", *words] if kind == "error" else words)
    body = block[1:]
    if "----" in body:
        at = body.index("----")
        record, body = replace(record, rows=tuple(body[at + 1 :])), body[:at]
    if "<<" in body:
        at = body.index("<<")
        data = "".join(f"{item}\n" for item in body[at + 1 :])
        record, body = replace(record, copy_data=data), body[:at]
    return replace(record, sql="\n".join(body))


def _with_words(record: Record, words: list[str]) -> Record:
    following = iter(words)
    for word in following:
        match word:
            case "ordered":
                record = replace(record, ordered=True)
            case "binary":
                record = replace(record, binary=True)
            case "error":
                record = replace(record, sqlstate=next(following))
            case "on":
                record = replace(record, connection=next(following))
            case _:
                raise ValueError(f"unknown word: {word}")
    return record


def disagreements(record: Record, plain: Client, gateway: Client) -> list[str]:
    """Run a record on both servers and return what is not as it should be."""
    if record.kind == "tiered":
        return [text for table in record.sql.splitlines() for text in _make_tiered(table, gateway)]
    if record.kind == "gateway":
        return _against_rows(record, gateway.run(*_said(record)))
    found = _compare(record, plain.run(*_said(record)), gateway.run(*_said(record)))
    if record.binary and record.divergence is None:
        found += _compare(
            record, plain.run(*_said(record), binary=True), gateway.run(*_said(record), binary=True)
        )
    return found


def _make_tiered(table: str, gateway: Client) -> list[str]:
    """Have the gateway make a table tiered; return what is wrong with that."""
    asked = gateway.run(f"ALTER TABLE {table} SET (gateway.residency = never)")
    if asked.sqlstate:
        return [f"{table} does not become tiered: {asked.results[-1].error}"]
    query = (
        "SELECT residency, pinned_by FROM gateway.tables"
        f" WHERE format('%I.%I', schema_name, table_name)::regclass = '{table}'::regclass"
    )
    deadline = time.monotonic() + _PATIENCE_S
    while (rows := gateway.run(query).results[-1].rows) and rows[0][0] != "tiered":
        if time.monotonic() > deadline:
            return [f"{table} is still resident, pinned by {rows[0][1]}"]
        time.sleep(0.1)
    return [] if rows else [f"{table} is in no list of tables"]


def _said(record: Record) -> tuple[str, str, str | None]:
    return record.sql, record.connection, record.copy_data


def _against_rows(record: Record, answer: Answer) -> list[str]:
    if answer.sqlstate != record.sqlstate:
        return [f"answers {answer.sqlstate}: {answer.results[-1].error}"]
    rows = ["|".join(row) for result in answer.results for row in result.rows]
    expected = list(record.rows)
    if not record.ordered:
        rows, expected = sorted(rows), sorted(expected)
    return [] if rows == expected else [f"rows are {rows}, expected {expected}"]


def _compare(record: Record, plain: Answer, gateway: Answer) -> list[str]:
    if plain.sqlstate != record.sqlstate:
        return [f"PostgreSQL itself answers {plain.sqlstate}: {plain.results[-1].error}"]
    plain = plain.normalised(ordered=record.ordered)
    gateway = gateway.normalised(ordered=record.ordered)
    different = list(_differences(plain, gateway))
    if record.divergence is None:
        return different
    if not different:
        return [f"agrees now, although it is said to diverge: {record.divergence.reason}"]
    if record.divergence.sqlstate not in (None, gateway.sqlstate):
        return [f"diverges in another way: {'; '.join(different)}"]
    return []


def _differences(plain: Answer, gateway: Answer) -> Iterator[str]:
    for number, (one, other) in enumerate(zip(plain.results, gateway.results, strict=False), 1):
        where = f"result {number}: " if len(plain.results) > 1 else ""
        for name in ("status", "tag", "columns"):
            if getattr(one, name) != getattr(other, name) and not other.error:
                yield f"{where}{name} {getattr(other, name)}, expected {getattr(one, name)}"
        if one.rows != other.rows and not other.error:
            yield f"{where}rows {_few(other.rows)}, expected {_few(one.rows)}"
        yield from (f"{where}error {text}" for text in _field_differences(one.error, other.error))
    if len(plain.results) != len(gateway.results):
        yield f"{len(gateway.results)} results, expected {len(plain.results)}"
    if plain.notices != gateway.notices:
        yield f"notices {gateway.notices}, expected {plain.notices}"
    if plain.transaction != gateway.transaction:
        yield f"transaction {gateway.transaction}, expected {plain.transaction}"


def _field_differences(plain: Mapping[str, str], gateway: Mapping[str, str]) -> Iterator[str]:
    if bool(plain) != bool(gateway):
        yield f"{dict(gateway) or 'none'}, expected {dict(plain) or 'none'}"
        return
    for name in ERROR_FIELDS:
        if plain.get(name) != gateway.get(name):
            yield f"{name} {gateway.get(name)!r}, expected {plain.get(name)!r}"


def _few(rows: list[tuple[str, ...]]) -> str:
    return str(rows) if len(rows) <= 12 else f"{str(rows[:12])[:-1]}, … {len(rows)} in all]"
