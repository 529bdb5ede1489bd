"""What a partitioned table, and the leaves below it by themselves, ask of their rows."""

import json
from typing import Final

from catalog.model import ComputedKey, UniqueKey
from catalog.pg.types import OID
from catalog.session.connections import CatalogSession

_KEYS: Final = """
SELECT pg_catalog.json_build_array(
           c.relname, i.indisprimary, i.indimmediate AND NOT i.indisexclusion,
           i.indexrelid::pg_catalog.int8,
           (SELECT pg_catalog.json_agg(u.k ORDER BY u.o)
              FROM pg_catalog.unnest(i.indkey::pg_catalog.int2[]) WITH ORDINALITY u (k, o)
             WHERE u.o <= i.indnkeyatts),
           i.indexprs, i.indpred, NOT i.indnullsnotdistinct)::pg_catalog.text
  FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
 WHERE i.indrelid = $1 AND i.indisvalid AND (i.indisunique OR i.indisexclusion)
 ORDER BY i.indexrelid
"""

_KEYS_OF_LEAVES: Final = """
SELECT 1 FROM pg_catalog.pg_partition_tree($1) t
  JOIN pg_catalog.pg_index i ON i.indrelid = t.relid
 WHERE t.isleaf AND (i.indisunique OR i.indisexclusion)
   AND NOT EXISTS (SELECT FROM pg_catalog.pg_partition_ancestors(i.indexrelid) a
                     JOIN pg_catalog.pg_index above ON above.indexrelid = a.relid
                    WHERE above.indrelid = $1 AND above.indisvalid)
 LIMIT 1
"""

_RULES_OF_LEAVES: Final = """
SELECT 1 FROM pg_catalog.pg_partition_tree($1) t
 WHERE t.isleaf AND (
       EXISTS (SELECT FROM pg_catalog.pg_constraint c
                WHERE c.conrelid = t.relid AND c.contype = 'c'
                  AND NOT EXISTS (SELECT FROM pg_catalog.pg_constraint o
                                   WHERE o.conrelid = $1 AND o.contype = 'c'
                                     AND o.conname = c.conname
                                     AND pg_catalog.to_jsonb(o) ->> 'conenforced'
                                         IS NOT DISTINCT FROM
                                         pg_catalog.to_jsonb(c) ->> 'conenforced'))
    OR EXISTS (SELECT FROM pg_catalog.pg_attribute a
                 JOIN pg_catalog.pg_attribute o ON o.attname = a.attname
                 LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
                 LEFT JOIN pg_catalog.pg_attrdef e ON e.adrelid = o.attrelid AND e.adnum = o.attnum
                WHERE a.attrelid = t.relid AND a.attnum > 0 AND NOT a.attisdropped
                  AND o.attrelid = $1 AND NOT o.attisdropped
                  AND (a.attnotnull <> o.attnotnull
                       OR a.attgenerated <> '' AND pg_catalog.pg_get_expr(d.adbin, d.adrelid)
                                       <> pg_catalog.pg_get_expr(e.adbin, e.adrelid))))
 LIMIT 1
"""


def unique_keys(session: CatalogSession, relid: int) -> tuple[UniqueKey | None, list[UniqueKey]]:
    """Return the primary key of a partitioned table, and the others.

    Those that are not compared row by row, at once, are computed ones.
    """
    primary, others = None, []
    for text in _column(session, _KEYS, relid):
        name, is_primary, is_plain, index, columns, expressions, predicate, distinct = json.loads(
            text
        )
        computed = None
        if not is_plain or not distinct or 0 in columns or predicate is not None:
            computed = ComputedKey(index, (), tuple(columns), expressions, predicate, distinct)
        key = UniqueKey(name, tuple(columns), computed)
        if is_primary:
            primary = key
        else:
            others.append(key)
    return primary, others


def leaves_have_keys(session: CatalogSession, relid: int) -> bool:
    """Return whether a leaf has a unique key that the partitioned table has not."""
    return bool(_column(session, _KEYS_OF_LEAVES, relid))


def leaves_have_rules(session: CatalogSession, relid: int) -> bool:
    """Return whether a leaf has constraints, or generates values, otherwise than the table."""
    return bool(_column(session, _RULES_OF_LEAVES, relid))


def _column(session: CatalogSession, sql: str, relid: int) -> list[str]:
    found = session.execute_parameters(
        sql, [str(relid).encode()], parameter_oids=[OID], is_own=True
    )
    return [(row[0] or b"").decode() for row in found.rows]
