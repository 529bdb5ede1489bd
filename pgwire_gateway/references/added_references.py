"""ALTER TABLE … ADD FOREIGN KEY where a table is tiered: the rows are looked at by the gateway.

PostgreSQL would look at those that are hot. So it is told not to validate the key, all values by
which rows reference are looked for, and then the key is noted to be valid.
"""

import json
from collections.abc import Sequence
from itertools import islice
from typing import Final

from catalog.bookkeeping import calls as bookkeeping
from catalog.results import RelationKind
from catalog.session import names
from catalog.statements.splitting import RelationName
from pgwire_gateway.references import parents, referencing_rows
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.observer import Observer
from rewrite import keys

AT_ONCE: Final = 10_000
"""How many values are passed to the catalog in one call."""


def applies(call: Invocation) -> bool:
    """Return whether a statement adds a foreign key to a tiered table, or of one."""
    details, catalog = call.statement.details, call.session.catalog
    if "referenced" not in details:
        return False
    tables = [RelationName(*details[name]) for name in ("referencing", "referenced")]
    relids = [relid for relid in names.relation_oids(catalog, tables) if relid]
    found = catalog.observations.relations(relids).values()
    return len(relids) == len(tables) and any(r.kind is RelationKind.JOURNALED for r in found)


def begin(call: Invocation) -> str:
    """Announce it; return the statement that adds the key without looking at rows."""
    call.session.catalog.call(bookkeeping.BEGIN_ADDING)
    return f"{call.statement.text}\nNOT VALID"


def validate(call: Invocation) -> None:
    """Look for all that the rows reference, and note that the key is valid.

    Raises:
        GatewayError: 23503 for a row that references what there is not.
    """
    catalog = call.session.catalog
    call.session.watch(call.running, call.statement.text)
    table = RelationName(*call.statement.details["referencing"])
    relid = names.relation_oid(catalog, table)
    told = json.loads(catalog.call(bookkeeping.ADDED_REFERENCES, str(relid).encode()))
    # It was added last.
    fk, is_resident, columns, to_tiered, is_full = told[-1]
    number = str(fk).encode()
    if is_resident:
        catalog.call(bookkeeping.SEEK_VALUES, number, None)
    else:
        if is_full and _mixes_nulls(call, relid, columns):
            catalog.call(bookkeeping.REFUSE_ADDED, number)
        rows = referencing_rows.values(call, relid, columns)
        while values := list(islice(rows, AT_ONCE)):
            catalog.call(bookkeeping.SEEK_VALUES, number, json.dumps(values).encode())
        catalog.call(bookkeeping.NOTE_SOUGHT, number)
    if to_tiered:
        parents.confirm_held(call)
    else:
        catalog.call(bookkeeping.FIND_SOUGHT, number)
    catalog.call(bookkeeping.END_ADDING, number)


def _mixes_nulls(call: Invocation, relid: int, columns: Sequence[int]) -> bool:
    """Return whether a row of a tiered table has NULL in some of several columns."""
    observer = Observer(call.session)
    observation = observer.observe([relid])
    query = keys.compile_mixed_nulls(observation.result.snapshots[relid], columns)
    with observer.run(query, observation, call.running) as batches:
        return any(batch.num_rows for batch in batches)
