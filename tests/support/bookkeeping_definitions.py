"""What a database's bookkeeping consists of but for rows, in PostgreSQL's own words."""

from typing import Final

import psycopg

_IN_BOOKKEEPING: Final = "'pg_journal'::regnamespace"

QUERIES: Final = {
    "functions": f"""
        SELECT p.oid::regprocedure::text, pg_get_functiondef(p.oid),
               (SELECT array_agg(a::text ORDER BY a::text) FROM unnest(p.proacl) a)
          FROM pg_proc p WHERE p.pronamespace = {_IN_BOOKKEEPING}""",
    "relations": f"""
        SELECT c.relname, c.relkind, c.relpersistence, c.reloptions,
               (SELECT array_agg(a::text ORDER BY a::text) FROM unnest(c.relacl) a),
               CASE c.relkind WHEN 'v' THEN pg_get_viewdef(c.oid)
                              WHEN 'i' THEN pg_get_indexdef(c.oid) END
          FROM pg_class c WHERE c.relnamespace = {_IN_BOOKKEEPING} AND c.relkind <> 't'""",
    "columns": f"""
        SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
               (SELECT pg_get_expr(d.adbin, d.adrelid) FROM pg_attrdef d
                 WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum)
          FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
         WHERE c.relnamespace = {_IN_BOOKKEEPING}""",
    "constraints": f"""
        SELECT x.conrelid::regclass::text, x.conname, pg_get_constraintdef(x.oid), x.convalidated
          FROM pg_constraint x WHERE x.connamespace = {_IN_BOOKKEEPING}""",
    "triggers": f"""
        SELECT g.tgrelid::regclass::text, pg_get_triggerdef(g.oid), g.tgenabled, g.tgisinternal,
               g.tginitdeferred,
               (SELECT array_agg(d.deptype::text || d.refclassid::regclass::text
                                 ORDER BY d.deptype, d.refclassid)
                  FROM pg_depend d WHERE d.classid = 'pg_trigger'::regclass AND d.objid = g.oid)
          FROM pg_trigger g JOIN pg_proc p ON p.oid = g.tgfoid
         WHERE p.pronamespace = {_IN_BOOKKEEPING}""",
    "silenced": """
        SELECT g.tgrelid::regclass::text, x.conname, g.tgfoid::regproc::text, g.tgtype, g.tgenabled
          FROM pg_trigger g JOIN pg_constraint x ON x.oid = g.tgconstraint
         WHERE g.tgfoid IN ('"RI_FKey_check_ins"'::regproc, '"RI_FKey_check_upd"'::regproc)""",
    "event triggers": """
        SELECT evtname, evtevent, evtfoid::regprocedure::text, evtenabled, evttags
          FROM pg_event_trigger""",
    "privileges": f"""
        SELECT 'schema', nspacl::text FROM pg_namespace WHERE oid = {_IN_BOOKKEEPING}
        UNION ALL SELECT lanname, lanacl::text FROM pg_language
        UNION ALL SELECT p.oid::regprocedure::text, p.proacl::text FROM pg_proc p
                   WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.proacl IS NOT NULL
        UNION ALL SELECT objoid::text, initprivs::text FROM pg_init_privs
                   WHERE classoid = 'pg_proc'::regclass""",
}


def definitions(connection: psycopg.Connection) -> dict[str, list[tuple]]:
    """Return the rows of each query, in order."""
    found = {}
    for name, query in QUERIES.items():
        found[name] = sorted(connection.execute(query).fetchall(), key=repr)  # type: ignore[call-overload]
    return found
