"""Random histories of a table, laid out as journals are, and a plain model of what they mean.

The model replays a history statement by statement and knows nothing of the product's law.
"""

import random
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from catalog.model import JournalTable
from pgwire_gateway.wire_types.versions import storage_schema


@dataclass(frozen=True)
class RowVersion:
    """A row version of a table ``(key, value)``."""

    key: int
    value: str
    number: int
    ends: bool = False
    successor: int | None = None
    """Of a superseded one in an archive."""

    @property
    def subsequent(self) -> int | None:
        return self.number if self.ends else self.successor


Rows = dict[int, str]
"""Values by key."""


def replay(versions: Iterable[RowVersion], *, ends_first: bool = True) -> Rows:
    """Return the rows that are there after all these statements.

    Args:
        versions: Row versions, in whatever order.
        ends_first: Whether a statement takes away before it brings; the other way round, what it
            has ended is gone.
    """
    rows: Rows = {}
    known = list(versions)
    for number in sorted({version.number for version in known}):
        written = [version for version in known if version.number == number]
        for version in sorted(written, key=lambda one: one.ends, reverse=ends_first):
            if version.ends:
                rows.pop(version.key, None)
            else:
                rows[version.key] = version.value
    return rows


def random_history(
    draw: random.Random, *, keys: int = 12, statements: int = 10, first: int = 1
) -> list[RowVersion]:
    """Return what random statements write, in the order of their version numbers.

    Rows come, change, go, come again, get the keys of others or change places with them, and go
    and come again in one statement.
    """
    history: list[RowVersion] = []
    rows: Rows = {}
    for number in range(first, first + statements):
        touched = draw.sample(range(keys), draw.randint(1, max(keys // 2, 1)))
        before = dict(rows)
        while touched:
            key = touched.pop()
            if key not in before:
                history.append(RowVersion(key, f"{key}:{number}", number))
                rows[key] = f"{key}:{number}"
                continue
            kind = draw.choice(["change", "change", "end", "again", "move"])
            if kind in {"end", "again", "move"}:
                history.append(RowVersion(key, before[key], number, ends=True))
                rows.pop(key)
            if kind in {"change", "again"}:
                history.append(RowVersion(key, f"{key}:{number}", number))
                rows[key] = f"{key}:{number}"
            if kind == "move" and touched:
                # To a key that is free, or that another row leaves for this one's.
                other = touched.pop()
                if other in before:
                    history.append(RowVersion(other, before[other], number, ends=True))
                    history.append(RowVersion(key, before[other], number))
                    rows[key] = before[other]
                history.append(RowVersion(other, before[key], number))
                rows[other] = before[key]
    return history


@dataclass
class Layout:
    """Where the row versions of a history are."""

    base: list[RowVersion]
    archive: list[RowVersion]
    deltas: list[list[RowVersion]]
    tail: list[RowVersion]

    @property
    def recent(self) -> list[RowVersion]:
        return [version for part in (*self.deltas, self.tail) for version in part]


def laid_out(draw: random.Random, history: Sequence[RowVersion], *, deltas: int = 3) -> Layout:
    """Lay a history out: what is old has been compacted, the rest is in deltas and in the tail.

    What one statement has written is in one place. A delta has what several have written, maybe in
    one transaction; large writes become deltas although there is a tail, so that its row versions
    may be older than theirs. In no part is there an order.
    """
    last = max(version.number for version in history)
    compacted = draw.randint(0, last * 2 // 3)
    old = [version for version in history if version.number <= compacted]
    current = replay(old)
    base, archive = [], []
    for key in {version.key for version in old}:
        # Newest last; of one number the one that ends is the older one.
        of_key = sorted(
            (version for version in old if version.key == key),
            key=lambda one: (one.number, not one.ends),
        )
        for version, successor in zip(of_key, [*of_key[1:], None], strict=True):
            if successor is None and key in current:
                base.append(version)
            elif successor is None or version.ends:
                archive.append(version)
            else:
                archive.append(replace(version, successor=successor.number))
    parts: list[list[RowVersion]] = [[] for _ in range(deltas + 1)]
    for number in range(compacted + 1, last + 1):
        parts[draw.randrange(deltas + 1)] += [one for one in history if one.number == number]
    for part in (base, archive, *parts):
        draw.shuffle(part)
    return Layout(base, archive, parts[:-1], parts[-1])


def stored(
    table: JournalTable, versions: Iterable[RowVersion], keys: Collection[object] | None = None
) -> pa.Table:
    """Return row versions in storage layout.

    Args:
        table: A table of a key, or none, and of a text at the end.
        versions: The row versions.
        keys: Values that stand for the keys 0, 1, …, those themselves unless said.
    """
    schema = storage_schema(table)
    named = list(keys or ())
    rows = []
    for version in versions:
        values = [named[version.key] if named else version.key, version.value]
        hidden = [version.number, version.subsequent]
        if not table.key:
            values, hidden = [version.value], [*hidden, version.key]
        rows.append([*values, *hidden])
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = []
    for field, values in zip(schema, columns, strict=True):
        is_moment = pa.types.is_timestamp(field.type)
        given = pa.array(values, pa.int64()) if is_moment else pa.array(values, field.type)
        arrays.append(given.cast(field.type))
    return pa.Table.from_arrays(arrays, schema=schema)
