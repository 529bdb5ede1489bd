"""Unique keys of tiered tables, besides the primary key: no two current rows share their values.

PostgreSQL's indexes keep them among the rows that are in the catalog table at once: hot ones, and
those of one write. What else the journal holds is looked at here.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from catalog.errors import GatewayError
from catalog.journal.layout import column_names
from catalog.model import JournalTable, UniqueKey
from catalog.pg import sqlstate as codes
from catalog.session import names
from catalog.session.readable_columns import readable_columns
from pgwire_gateway.rows import computed_keys
from pgwire_gateway.rows.value_search import rows_with
from pgwire_gateway.session.observation import Observation
from pgwire_gateway.session.observer import Observer
from pgwire_gateway.session.state import ClientSession
from pgwire_gateway.spark.statements import RunningStatement
from pgwire_gateway.wire_types import plain_keys
from pgwire_gateway.wire_types.catalog_rows import key_texts, key_values
from rewrite import keys
from rewrite.context import ParameterValue


def require_new(
    session: ClientSession,
    relid: int,
    running: RunningStatement,
    values: Sequence[Sequence[Sequence[Any]]],
    observation: Observation | None = None,
) -> None:
    """Refuse values that several current rows have, those of this transaction among them (23505).

    Args:
        session: Who writes.
        relid: The table.
        running: The statement.
        values: For each of its unique keys, in their order, values that were written, in transfer
            forms, without NULL.
        observation: The table as it is now, where that is known.
    """
    if not any(values):
        return
    rows = _Rows(session, relid, running, observation)
    for key, found in zip(rows.table.unique_keys, values, strict=True):
        shared = rows.shared_among(key, found) if found else None
        if shared is not None:
            raise duplicate(session, rows.table, key, shared)


def require_all(
    session: ClientSession, relid: int, running: RunningStatement, wanted: Iterable[UniqueKey]
) -> None:
    """Refuse that several current rows of a table share a value of unique keys (23505)."""
    checked = list(wanted)
    if not checked:
        return
    rows = _Rows(session, relid, running)
    for key in checked:
        shared = rows.shared(key)
        if shared is not None:
            raise duplicate(session, rows.table, key, shared)


def require_unique(
    session: ClientSession, relid: int, running: RunningStatement, key: UniqueKey
) -> None:
    """Refuse a new unique key that the current rows of a table do not satisfy (23505)."""
    rows = _Rows(session, relid, running)
    shared = rows.shared(key)
    if shared is not None:
        table = rows.table
        named = described(session, table, key, shared)
        raise GatewayError(
            f'could not create unique index "{key.name}"',
            sqlstate=codes.UNIQUE_VIOLATION,
            detail=f"{named} is duplicated." if named else "Duplicate keys exist.",
            fields={"s": table.schema, "t": table.name, "n": key.name},
        )


def duplicate(
    session: ClientSession, table: JournalTable, key: UniqueKey, values: Sequence[str]
) -> GatewayError:
    """Return PostgreSQL's error for a value that exists already."""
    named = described(session, table, key, values)
    return GatewayError(
        f'duplicate key value violates unique constraint "{key.name}"',
        sqlstate=codes.UNIQUE_VIOLATION,
        detail=named and f"{named} already exists.",
        fields={"s": table.schema, "t": table.name, "n": key.name},
    )


def touched(table: JournalTable, assigned: Iterable[int]) -> list[UniqueKey]:
    """Return the unique keys whose values can change where some columns are assigned."""
    generated = {column.attnum for column in table.columns if column.generated}
    changed = generated.union(assigned)
    return [key for key in table.unique_keys if not changed.isdisjoint(key.columns)]


def primary(table: JournalTable) -> UniqueKey:
    """Return the primary key of a table that has one."""
    return UniqueKey(table.key_name or "", table.key)


class _Rows:
    """The current rows of a table, as a transaction sees them now."""

    def __init__(
        self,
        session: ClientSession,
        relid: int,
        running: RunningStatement,
        observation: Observation | None = None,
    ) -> None:
        self._session = session
        self._running = running
        self._observer = Observer(session)
        self._observation = observation or self._observer.observe([relid])
        self.table = self._observation.result.snapshots[relid].table

    def shared_among(self, key: UniqueKey, values: Sequence[Sequence[Any]]) -> list[str] | None:
        """Return one of some values that several rows have, as text; None where there is none."""
        if key.computed is not None:
            told = (self._session, self._observation, self.table, key)
            held = computed_keys.rows_with(*told, {str(value) for (value,) in values})
            if held is None:
                return self.shared(key)
            several = [value for value, n in Counter(value for _, value in held).items() if n > 1]
            return computed_keys.parts(several[0]) if several else None
        types = self._types(key)
        asked = [key_values(types, value) for value in values]
        if plain_keys.has_one_form(self.table, key.columns):
            lookups = self._session.services.lookups
            wanted = set(asked)
            rows = rows_with(self._observation, self.table.relid, key.columns, wanted, lookups)
            if rows is not None:
                columns = column_names(key.columns)
                counts = Counter(plain_keys.tuples(rows, columns))
                doubled = (value for value, n in counts.items() if n > 1)
                return next((list(plain_keys.written(types, value)) for value in doubled), None)
        among = [tuple(map(ParameterValue, types, value)) for value in asked]
        return self.shared(key, among)

    def shared(
        self, key: UniqueKey, among: Sequence[Sequence[ParameterValue]] = ()
    ) -> list[str] | None:
        """Return one value that several rows have, or one of some, as text; None for none."""
        if key.computed is not None:
            told = (self._session, self._observation, self.table, key)
            return computed_keys.shared(*told, self._running)
        snapshot = self._observation.result.snapshots[self.table.relid]
        query = keys.compile_shared_keys(snapshot, key.columns, among)
        with self._observer.run(query, self._observation, self._running) as batches:
            found = next((batch for batch in batches if batch.num_rows), None)
        return None if found is None else key_texts(found, self._types(key))[0]

    def _types(self, key: UniqueKey) -> list[int]:
        return [self.table.column(attnum).type_oid for attnum in key.columns]


def described(
    session: ClientSession, table: JournalTable, key: UniqueKey, values: Sequence[str]
) -> str | None:
    """Return the columns of a key, and their values, as an error lists them.

    None for who may not read them: a computed value is that of the whole row.
    """
    parts = key.columns if key.computed is None else key.computed.parts
    if not readable_columns(session.catalog, table.relid).holds(parts):
        return None
    if key.computed is not None:
        listed = ", ".join(key.computed.labels)
    else:
        columns = [table.column(attnum).name for attnum in key.columns]
        listed = names.identifiers(session.catalog, columns)
    return f"Key ({listed})=({', '.join(values)})"
