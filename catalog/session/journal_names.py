"""The names of journals: ``t_journal`` stands for the journal of ``t`` where no relation bears it.

What stands for a journal in PostgreSQL lies in the bookkeeping's schema under a number, out of
users' way. A statement that names a journal is rewritten to name that, before PostgreSQL sees it.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from catalog.errors import GatewayError
from catalog.journal.layout import SUFFIX
from catalog.pg import sqlstate
from catalog.pg.statement_tokens import tokens_of
from catalog.pg.types import TEXT
from catalog.session import names, residency, session_state
from catalog.session.connections import CatalogSession
from catalog.statements.splitting import RelationName, Statement, StatementKind, parse_tree, split

_LONGEST_TABLE: Final = 63 - len(SUFFIX)
"""Bytes of a table's name that its journal's has room for; of a longer one the rest is cut off."""

_HIDDEN: Final = re.compile(r"\bjournal_\d+\b")
"""Names of the tables that stand for journals."""

_SYSTEM_LISTS: Final = (
    *(f"pg_stat_{kind}_{what}" for kind in ("all", "user") for what in ("tables", "indexes")),
    *(
        f"pg_statio_{kind}_{what}"
        for kind in ("all", "user")
        for what in ("tables", "indexes", "sequences")
    ),
    "pg_stat_xact_all_tables",
    "pg_stat_xact_user_tables",
    "pg_stat_user_functions",
    "pg_stat_xact_user_functions",
    "pg_indexes",
    "pg_matviews",
    "pg_policies",
    "pg_rules",
    "pg_sequences",
    "pg_stats",
    "pg_stats_ext",
    "pg_stats_ext_exprs",
    "pg_tables",
    "pg_views",
)
"""The system's views that tell the schema of what they list."""

_SENT: Final = "pgwire_sent"
"""Begins a comment with a statement of a client's that another one stands for."""

_CURSORS: Final = (
    "(SELECT name, coalesce(pg_catalog.convert_from(pg_catalog.decode("  # noqa: S608 - of our own
    f"pg_catalog.substring(statement, '/[*] {_SENT} ((?:[0-9a-f]{{2}})+) [*]/$'), 'hex'), 'UTF8'),"
    " statement) AS statement, is_holdable, is_binary, is_scrollable, creation_time"
    " FROM pg_catalog.pg_cursors)"
)
"""Cursors with what such comments tell."""

_CURSOR_LISTS: Final = (RelationName(None, "pg_cursors"), RelationName("pg_catalog", "pg_cursors"))


def with_sent(text: str, sent: str) -> str:
    """Return a statement with a comment that tells which one of a client's it stands for."""
    return f"{text}\n/* {_SENT} {sent.encode('utf-8', 'surrogateescape').hex()} */"


_VIEWS: Final = {
    RelationName("gateway", "commits"): "pg_journal.commit_list",
    RelationName("gateway", "commit_files"): "pg_journal.commit_file_list",
    RelationName("gateway", "write_amplification"): "pg_journal.amplification_list",
    RelationName("gateway", "maintenance"): "pg_journal.maintenance",
    RelationName("gateway", "partitioned_tables"): "pg_journal.division_list",
    RelationName("gateway", "partitions"): "pg_journal.partition_list",
    RelationName("gateway", "progress"): "pg_journal.progress_list",
    RelationName("gateway", "rollbacks"): "pg_journal.rollback_list",
    RelationName("gateway", "savepoints"): "pg_journal.savepoint_list",
    RelationName("gateway", "tables"): "pg_journal.tables",
    **{
        RelationName(schema, name): query
        for schema in (None, "pg_catalog")
        for name, query in (
            (
                "pg_prepared_statements",
                "(SELECT * FROM pg_catalog.pg_prepared_statements WHERE name !~ '^pgwire_')",
            ),
            (
                "pg_event_trigger",
                "(SELECT tableoid, * FROM pg_catalog.pg_event_trigger WHERE evtname !~ '^pgwire_')",
            ),
            *(
                (name, f"(SELECT * FROM pg_catalog.{name} WHERE schemaname <> 'pg_journal')")  # noqa: S608 - names of our own
                for name in _SYSTEM_LISTS
            ),
        )
    },
    **{
        RelationName("information_schema", name): (
            f"(SELECT * FROM information_schema.{name}"  # noqa: S608 - names of our own
            f" WHERE {column} <> 'pg_journal')"
        )
        for name, column in (
            ("columns", "table_schema"),
            ("column_privileges", "table_schema"),
            ("routines", "routine_schema"),
            ("role_table_grants", "table_schema"),
            ("schemata", "schema_name"),
            ("table_privileges", "table_schema"),
            ("tables", "table_schema"),
            ("views", "table_schema"),
        )
    },
}
"""What shows what a name stands for without what is the gateway's own.

Not views, which pg_dump has PostgreSQL refuse unless they are the system's.
"""

_LISTS: Final = {
    **{
        RelationName(schema, name): f"pg_journal.{view}"
        for schema in (None, "pg_catalog")
        for name, view in (
            ("pg_class", "shown_pg_class"),
            ("pg_tables", "shown_pg_tables"),
            ("pg_table_is_visible", "pg_table_is_visible"),
        )
    },
    **{
        RelationName("information_schema", name): f"pg_journal.shown_{name}"
        for name in (
            "columns",
            "column_privileges",
            "role_table_grants",
            "table_privileges",
            "tables",
        )
    },
}
"""What shows journals too, where ``gateway.show_journals`` is on: lists, and a function of them."""

_SYSTEM_COLUMNS: Final = ("tableoid", "xmin", "ctid")
"""Those of ``pg_class`` that clients ask for; views have them only as columns of their own."""

SHOW_JOURNALS: Final = "gateway.show_journals"

_ALIASED: Final = frozenset(
    {"fromClause", "larg", "rarg", "relation", "usingClause", "sourceRelation"}
)
"""Fields of raw trees whose relations can have aliases."""

_WITH_ALIASES: Final = frozenset(
    {"SelectStmt", "JoinExpr", "InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt"}
)
"""Nodes with such fields."""

_CREATED: Final = frozenset(
    {
        ("CreateStmt", "relation"),
        ("CreateSeqStmt", "sequence"),
        ("CreateTableAsStmt", "rel"),
        ("SelectStmt", "rel"),
        ("ViewStmt", "view"),
    }
)
"""Nodes and fields with the name of a relation that is to be: it hides the journal."""


_SCHEMA_AND_TABLE: Final = 2
"""How many words may come before the name of a column, without the database."""


@dataclass(frozen=True, slots=True)
class NamedJournals:
    """A statement as PostgreSQL is to see it, and how its errors read to the client."""

    statement: Statement
    shown: Mapping[str, str]
    """What stands for a journal in PostgreSQL's messages → the name the client knows."""

    def translate(self, error: GatewayError) -> GatewayError:
        """Return an error with the names the client used; its position is that of other text."""
        for hidden, name in self.shown.items():
            error.message = error.message.replace(hidden, name)
            if error.detail is not None:
                error.detail = error.detail.replace(hidden, name)
        error.position = None
        return error


def resolve(catalog: CatalogSession, statement: Statement) -> NamedJournals | None:
    """Return a statement that names journals as PostgreSQL can understand it; None for others."""
    if sets_lists(statement):
        catalog.may_show_journals = True
    hidden = {name: _VIEWS[name] for name in statement.relations if name in _VIEWS}
    if hidden and "tableoid" not in statement.text:
        hidden = {name: sql.replace("tableoid, ", "") for name, sql in hidden.items()}
    if catalog.has_other_cursors and statement.kind is not StatementKind.DEFINITION:
        # A view would keep it.
        hidden |= {name: _CURSORS for name in statement.relations if name in _CURSOR_LISTS}
    if any(name in _LISTS for name in statement.relations) and _shows_lists(catalog, statement):
        hidden |= _lists(statement)
    if hidden:
        hidden = _without_others(catalog, statement, hidden)
    candidates = [name for name in statement.relations if name.name.endswith(SUFFIX)]
    journals = _journals(catalog, candidates) if candidates else {}
    if statement.kind is StatementKind.DEFINITION:
        _refuse_partitioned(journals)
    hidden |= journals
    if not hidden:
        return None
    text = _substituted(statement.text, hidden)
    (inner,) = split(text)
    shown = {table: name.name for name, sql in journals.items() for table in _HIDDEN.findall(sql)}
    if any(name in _CURSOR_LISTS for name in hidden):
        # It has a portal itself, which is in that list.
        inner = replace(inner, text=with_sent(inner.text, statement.text))
    looked_up = [name for journal in journals for name in (journal, _table_of(journal))]
    return NamedJournals(replace(inner, offset=statement.offset, looked_up=tuple(looked_up)), shown)


def name_of(administrator: CatalogSession, relid: int) -> str | None:
    """Return the name of a table's journal; None where the table has none.

    None, too, where other relations are called like what stands for it: they may be meant.
    """
    result = administrator.execute_parameters(
        "SELECT c.relname FROM pg_journal.journals j JOIN pg_catalog.pg_class c ON c.oid = j.relid"
        " WHERE j.relid = $1::oid AND 1 = (SELECT pg_catalog.count(*) FROM pg_catalog.pg_class o"
        " WHERE o.relname = 'journal_' || $1)",
        [str(relid).encode()],
        parameter_oids=[TEXT],
    )
    for row in result.rows:
        table = (row[0] or b"").decode("utf-8", "surrogateescape")
        cut = table.encode("utf-8", "surrogateescape")[:_LONGEST_TABLE]
        return cut.decode("utf-8", "ignore") + SUFFIX
    return None


def _without_others(
    catalog: CatalogSession, statement: Statement, hidden: dict[RelationName, str]
) -> dict[RelationName, str]:
    """Leave out names that stand for other relations, and those that have to stay.

    A name without a schema may be that of another relation. Columns that are named with the schema
    of a list, and lists without what inherits from them, have no other form: these are shown whole.
    """
    plain = [name.name for name in statement.relations if name in hidden and not name.schema]
    others = set(plain) - names.seen_in_system(catalog, plain) if plain else set()
    fixed = _fixed(statement.text)
    return {
        name: sql
        for name, sql in hidden.items()
        if (name not in fixed or name.schema == "gateway")
        and (name.schema or name.name not in others)
    }


def _fixed(text: str) -> set[RelationName]:
    """Return relations that are named with ONLY, or with their schema in the name of a column."""
    found: set[RelationName] = set()
    stack: list[Any] = list(parse_tree(text))
    while stack:
        value = stack.pop()
        if isinstance(value, list):
            stack.extend(value)
        elif isinstance(value, dict):
            if "relpersistence" in value and not value.get("inh"):
                found.add(RelationName(value.get("schemaname"), value["relname"]))
            words = [part.get("String", {}).get("sval") for part in value.get("fields", ())]
            if len(words) > _SCHEMA_AND_TABLE:
                found.add(RelationName(words[-3], words[-2]))
            stack.extend(value.values())
    return found


def sets_lists(statement: Statement) -> bool:
    """Return whether a statement may change ``gateway.show_journals``."""
    return SHOW_JOURNALS in statement.text.lower()


def _shows_lists(catalog: CatalogSession, statement: Statement) -> bool:
    """Return whether lists are to show journals in a statement.

    What a definition holds outlives the setting. Dumps have PostgreSQL refuse views that are not
    its own, and journals do not belong in them.
    """
    return (
        _may_show_journals(catalog)
        and not _is_definition(statement)
        and not session_state.refuses_views(catalog)
    )


def _is_definition(statement: Statement) -> bool:
    if statement.kind is StatementKind.CREATE_TABLE_AS:
        (tree,) = parse_tree(statement.text)
        return bool(tree["CreateTableAsStmt"]["objtype"] == "OBJECT_MATVIEW")
    return statement.kind is StatementKind.DEFINITION


def _may_show_journals(catalog: CatalogSession) -> bool:
    """Return whether the setting has been given a value in this session, or for it."""
    if catalog.may_show_journals is None:
        catalog.may_show_journals = session_state.is_set(catalog, SHOW_JOURNALS)
    return catalog.may_show_journals


def _lists(statement: Statement) -> dict[RelationName, str]:
    """Return the lists that show journals; by the setting of the moment they do, or do not."""
    lists = dict(_LISTS)
    if any(column in statement.text for column in _SYSTEM_COLUMNS):
        for name, view in lists.items():
            lists[name] = view.replace("shown_pg_class", "shown_system_pg_class")
    return lists


def _journals(catalog: CatalogSession, candidates: list[RelationName]) -> dict[RelationName, str]:
    """Return what stands for the journals named, where nothing else bears their names.

    That of a partitioned table is a query in parentheses.
    """
    named = [names.qualified(name) for name in candidates]
    tables = [names.qualified(_table_of(name)) for name in candidates]
    found = names.tables_of_missing(catalog, named, tables)
    relids = {
        name: relid
        for name, plain in zip(candidates, found, strict=True)
        if (relid := plain or _long_table(catalog, name))
    }
    known = residency.journals_named(catalog, sorted(set(relids.values()))) if relids else {}
    return {name: known[relid] for name, relid in relids.items() if relid in known}


def _table_of(journal: RelationName) -> RelationName:
    return RelationName(journal.schema, journal.name.removesuffix(SUFFIX))


def _long_table(catalog: CatalogSession, name: RelationName) -> int:
    """Return the OID of the table whose name was too long for its journal's, 0 for none."""
    cut = name.name.removesuffix(SUFFIX)
    # A character has up to four bytes, and none is cut in two.
    if len(cut.encode("utf-8", "surrogateescape")) <= _LONGEST_TABLE - 4:
        return 0
    missing = names.qualified(name)
    return names.cut_table(catalog, missing, name.schema, cut, _LONGEST_TABLE)


def _refuse_partitioned(journals: Mapping[RelationName, str]) -> None:
    """Refuse definitions that partitions made later would be missing in (0A000)."""
    for name, sql in journals.items():
        if sql.startswith("("):
            raise GatewayError(
                f'a definition over "{name.name}", the journal of a partitioned table, '
                "is not supported",
                sqlstate=sqlstate.FEATURE_NOT_SUPPORTED,
                hint="Name the journals of the partitions.",
            )


def _substituted(text: str, hidden: Mapping[RelationName, str]) -> str:
    """Return a statement with other names of relations, and the old ones as aliases."""
    encoded = text.encode("utf-8", "surrogateescape")
    tokens = tokens_of(encoded)
    places = sorted(_places(text, hidden), key=lambda place: place[0], reverse=True)
    for location, name, aliased in places:
        first = next(i for i, token in enumerate(tokens) if token.start >= location)
        last = first + (2 if name.schema else 0)
        follows = tokens[last + 1].text if last + 1 < len(tokens) else ""
        if follows == "*" and hidden[name].startswith("("):
            last += 1  # as if it were not there
        alias = f" AS {names.quoted(name.name)}" if aliased else ""
        new = f"{hidden[name]}{alias}".encode()
        encoded = encoded[: tokens[first].start] + new + encoded[tokens[last].end :]
        only = first - int(tokens[first - 1].is_word("only"))
        if aliased and tokens[only - 1].is_word("table"):
            # TABLE name has no place for an alias.
            table = tokens[only - 1]
            encoded = encoded[: table.start] + b"SELECT * FROM" + encoded[table.end :]
    return encoded.decode("utf-8", "surrogateescape")


def _places(
    text: str, hidden: Mapping[RelationName, str]
) -> Iterator[tuple[int, RelationName, bool]]:
    """Yield where relations are named: byte offset, name, and whether an alias has to follow."""
    stack: list[tuple[str, str, Any]] = [("", "", entry) for entry in parse_tree(text)]
    while stack:
        above, field, value = stack.pop()
        if isinstance(value, list):
            stack.extend((above, field, item) for item in value)
        elif isinstance(value, dict):
            if "relpersistence" in value and "relname" in value:
                name = RelationName(value.get("schemaname"), value["relname"])
                aliased = above in _WITH_ALIASES and field in _ALIASED
                if (above, field) in _CREATED:
                    continue
                read = aliased and field != "relation"
                if name in hidden and (read or not hidden[name].startswith("(")):
                    yield value.get("location", 0), name, aliased and "alias" not in value
                continue
            if "funcname" in value:
                name = RelationName(*_function_name(value["funcname"]))
                if name in hidden:
                    yield value.get("location", 0), name, False
            for key, item in value.items():
                # A node's class stands in a field of its own, above its fields.
                node = key[:1].isupper()
                inside = key if node and key != "RangeVar" else above
                stack.append((inside, field if node else key, item))


def _function_name(parts: list[dict[str, Any]]) -> tuple[str | None, str]:
    """Return schema and name of a function; a longer name is none of PostgreSQL's own."""
    words = [part["String"].get("sval", "") for part in parts]
    return (words[0], words[1]) if len(words) == 2 else (None, words[-1])
