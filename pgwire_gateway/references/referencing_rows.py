"""By which values the rows of a tiered table reference others."""

from collections.abc import Collection, Iterator, Sequence

from catalog.journal.layout import column_names
from pgwire_gateway.rows.value_search import rows_with
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.observer import Observer
from pgwire_gateway.wire_types import plain_keys
from pgwire_gateway.wire_types.catalog_rows import key_texts
from rewrite import keys

Texts = tuple[str, ...]
"""Values of several columns as PostgreSQL's texts."""


def values(call: Invocation, relid: int, columns: Sequence[int]) -> Iterator[Texts]:
    """Return all values by which rows of a table reference."""
    observer = Observer(call.session)
    observation = observer.observe([relid])
    snapshot = observation.result.snapshots[relid]
    query = keys.compile_values(snapshot, tuple(columns))
    types = [snapshot.table.column(attnum).type_oid for attnum in columns]
    with observer.run(query, observation, call.running) as batches:
        for batch in batches:
            yield from map(tuple, key_texts(batch, types))


def first_with(
    call: Invocation, relid: int, columns: Sequence[int], wanted: Collection[Texts]
) -> Texts | None:
    """Return one of some values by which a row of a table references; None where none does."""
    observation = Observer(call.session).observe([relid])
    table = observation.result.snapshots[relid].table
    if plain_keys.has_one_form(table, columns):
        typed = [table.column(attnum) for attnum in columns]
        read = {plain_keys.read(typed, one): one for one in wanted}
        texts = {value: one for value, one in read.items() if None not in value}
        rows = rows_with(observation, relid, columns, texts, call.services.lookups)
        if rows is not None:
            names = column_names(columns)
            found = plain_keys.tuples(rows.select(names), names)
            return next((texts[key] for key in found if key in texts), None)
    return next((one for one in values(call, relid, columns) if one in wanted), None)
