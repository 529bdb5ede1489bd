"""Values of unique keys that several rows have, of which not all are hot.

Hot rows are in a table with its indexes, which does not show the others.
"""

from collections import Counter
from dataclasses import replace

import psycopg

from rewrite.needs.definitions import Definitions, Relation, UniqueKey
from tests.support.outcomes import Row

_COMPUTED = frozenset({"an index with a predicate", "an index with an expression"})


def looked_for_afterwards(known: Definitions, primary: frozenset[int]) -> Definitions:
    """Return definitions of tables whose unique keys, but the primary ones, are kept afterwards."""

    def kept(relid: int, key: UniqueKey) -> UniqueKey:
        if key.irregular in _COMPUTED:
            return UniqueKey(key.columns, computed=True, kept_afterwards=True)
        is_primary = relid in primary and key is known.relation(relid).unique[0]
        return key if is_primary else replace(key, kept_afterwards=True)

    def changed(relid: int, relation: Relation) -> Relation:
        return replace(relation, unique=tuple(kept(relid, key) for key in relation.unique))

    relations = {relid: changed(relid, relation) for relid, relation in known.relations.items()}
    return replace(known, relations=relations)


def cold_holders(
    connection: psycopg.Connection, table: str, after: Counter[Row], cold: Counter[Row]
) -> Counter[Row]:
    """Return the cold rows that share a value of a unique key with rows that were hot.

    Args:
        connection: A connection.
        table: The table, with its indexes and with rows that are left as they are.
        after: What has become of the hot rows.
        cold: The others.
    """
    if not after or not cold:
        return Counter()
    script = ["begin", "set local session_replication_role = replica", f"delete from {table}"]
    send = connection.pgconn.exec_
    send("; ".join([*script, f"insert into {table} values {values(after)}"]).encode())
    query = f"insert into {table} values {values(cold)} on conflict do nothing returning *"
    result = send(query.encode())
    assert result.status == psycopg.pq.ExecStatus.TUPLES_OK, result.error_message
    fit = Counter(row_of(result, number) for number in range(result.ntuples))
    send(b"rollback")
    return cold - fit


def row_of(result: psycopg.pq.abc.PGresult, number: int) -> Row:
    """Return a row of integers."""
    found = (result.get_value(number, column) for column in range(result.nfields))
    return tuple(None if value is None else int(value) for value in found)


def values(rows: Counter[Row]) -> str:
    """Return rows as a list of VALUES."""
    return ", ".join(
        "(" + ", ".join("null" if value is None else str(value) for value in row) + ")"
        for row in rows.elements()
    )
