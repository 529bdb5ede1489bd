"""What a catalog says of tables, as the rule of thaw-and-run wants to know it."""

from collections.abc import Callable, Sequence

import psycopg

from catalog.connection.describe import TREE_MESSAGE, unbroken
from rewrite.needs.definitions import Action, Definitions, ForeignKey, Relation, UniqueKey
from rewrite.pipeline import parse_tree
from rewrite.tree import Node, parse_item

_TABLES = """
select c.oid::int8, c.relname,
       array(select attnum::int4 from pg_attribute
              where attrelid = c.oid and attnum > 0 and attgenerated <> '') as generated,
       (select 'the trigger ' || min(tgname) from pg_trigger
         where tgrelid = c.oid and not tgisinternal) as code,
       relkind = 'p' or exists
       (select from pg_inherits where c.oid in (inhrelid, inhparent)) as inherits
  from pg_class c where relnamespace = %s::regnamespace and relkind in ('r', 'p')
"""
_INDEXES = """
select indrelid::int8,
       case when indpred is null and indexprs is null then indkey::int2[]::int4[]
            else array(select refobjsubid from pg_depend
                        where objid = indexrelid and refobjid = indrelid and refobjsubid > 0) end,
       case when indpred is not null then 'an index with a predicate'
            when indexprs is not null then 'an index with an expression'
            when indisexclusion then 'an exclusion constraint'
            when indnullsnotdistinct then 'an index for which NULLs are equal' end
  from pg_index join pg_class c on c.oid = indrelid
 where relnamespace = %s::regnamespace and (indisunique or indisexclusion) order by indexrelid
"""
_FOREIGN_KEYS = """
select conrelid::int8, conkey::int4[], confrelid::int8, confkey::int4[], confupdtype::text,
       confdeltype::text, coalesce(confdelsetcols, '{}')::int4[]
  from pg_constraint join pg_class c on c.oid = conrelid
 where relnamespace = %s::regnamespace and contype = 'f' order by pg_constraint.oid
"""
_DOMAINS = """
select t.oid::int8, t.typbasetype::int8,
       array(select conbin::text from pg_constraint where contypid = t.oid and contype = 'c')
  from pg_type t where typtype = 'd'
"""


def definitions(connection: psycopg.Connection, schema: str, tiered: set[str]) -> Definitions:
    """Return the definitions of a schema's tables, of which those named are tiered."""
    volatility: dict[int, str] = dict(
        connection.execute("select oid::int8, provolatile::text from pg_proc").fetchall()
    )
    signatures: dict[int, str] = dict(
        connection.execute("select oid::int8, oid::regprocedure::text from pg_proc").fetchall()
    )
    unique: dict[int, list[UniqueKey]] = {}
    for relid, columns, irregular in connection.execute(_INDEXES, [schema]):
        unique.setdefault(relid, []).append(UniqueKey(tuple(columns), irregular))
    relations = {}
    cold = set()
    for relid, name, generated, code, inherits in connection.execute(_TABLES, [schema]):
        keys = tuple(unique.get(relid, ()))
        unfit = "partitions or children" if inherits else None
        relations[relid] = Relation(keys, frozenset(generated), code, unfit)
        if name in tiered:
            cold.add(relid)
    keys = tuple(
        ForeignKey(
            child, tuple(columns), parent, tuple(referenced), Action(update), Action(delete),
            tuple(nulled),
        )
        for child, columns, parent, referenced, update, delete, nulled in connection.execute(
            _FOREIGN_KEYS, [schema]
        )
    )  # fmt: skip
    return Definitions(
        frozenset(cold),
        volatility.__getitem__,
        relations,
        keys,
        domain_checks=domain_checks(connection),
        signature=signatures.__getitem__,
    )


def domain_checks(connection: psycopg.Connection) -> Callable[[int], list[Node]]:
    """Return what tells the checks of a domain, with those of the domains it is made of."""
    domains = {oid: (base, checks) for oid, base, checks in connection.execute(_DOMAINS)}

    def found(domain: int) -> list[Node]:
        base, checks = domains.get(domain, (0, []))
        own = [check for check in map(parse_item, checks) if isinstance(check, Node)]
        return own + (found(base) if base else [])

    return found


class Analyst:
    """A connection that tells the trees of statements, in one trip each."""

    def __init__(self, uri: str) -> None:
        self.connection = psycopg.connect(uri, autocommit=True)
        self._found: list[str] = []
        self.connection.execute("set debug_pretty_print = off")
        self.connection.execute("set debug_print_rewritten = on")
        self.connection.execute("set client_min_messages = log")
        self.connection.add_notice_handler(self._collect)

    def _collect(self, notice: psycopg.errors.Diagnostic) -> None:
        if notice.message_primary == TREE_MESSAGE:
            self._found.append(unbroken(notice.message_detail or ""))

    def search_path(self, schema: str) -> None:
        """Resolve names in a schema."""
        self.connection.execute(f"set search_path = {schema}")

    def queries(self, sql: str, types: Sequence[int] = ()) -> tuple[Node, ...]:
        """Return the rewritten queries of a statement; AssertionError when it is not valid.

        Args:
            sql: The statement.
            types: OIDs of the types of its parameters, where they are not to be found out.
        """
        self._found.clear()
        result = self.connection.pgconn.prepare(b"", sql.encode(), types or None)
        if not self._found:
            raise AssertionError(f"{sql}: {result.error_message.decode()}")
        return parse_tree(self._found[0])
