"""Names of relations to what the catalog knows of them, as the session's role sees it."""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from catalog.errors import CatalogError, GatewayError
from catalog.model import Domain, DomainCheck
from catalog.pg.sqlstate import DUPLICATE_TABLE, UNDEFINED_TABLE
from catalog.pg.types import INT4, JSON, OID, OID_ARRAY, TEXT
from catalog.server.roles import IMPORT_ROLE
from catalog.session.connections import CatalogSession
from catalog.statements.splitting import RelationName

_VIEW_SAVEPOINT: Final = "pgwire_view"

_ARRAY_NULLS: Final = "SELECT pg_catalog.current_setting('array_nulls')"
_SET_ARRAY_NULLS: Final = "SELECT pg_catalog.set_config('array_nulls', $1, true)"


def quoted(*names: str) -> str:
    """Return a possibly qualified name as SQL."""
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)


def qualified(name: RelationName) -> str:
    """Return the name of a relation as SQL, with its schema where it has one."""
    return quoted(*filter(None, (name.schema, name.name)))


def seen_in_system(session: CatalogSession, plain: Iterable[str]) -> set[str]:
    """Return those of some names without schema that stand for relations of the system's."""
    sql = (
        "SELECT u.n FROM pg_catalog.json_array_elements_text($1) u (n)"
        " WHERE pg_catalog.to_regclass(pg_catalog.quote_ident(u.n))"
        " OPERATOR(pg_catalog.=)"
        " pg_catalog.to_regclass('pg_catalog.' OPERATOR(pg_catalog.||) pg_catalog.quote_ident(u.n))"
    )
    return set(_texts(session, sql, JSON, json.dumps(list(plain))))


def relation_oid(session: CatalogSession, name: RelationName) -> int:
    """Return the OID of a relation as the session's search path finds it.

    Raises:
        CatalogError: 42P01 when there is none, 3F000 when its schema is missing.
    """
    return named_relation(session, qualified(name))


def named_relation(session: CatalogSession, text: str) -> int:
    """Return the OID of the relation that a text names as regclass does.

    Raises:
        CatalogError: 42P01 when there is none, 42602 for no name.
    """
    (oid,) = _texts(session, "SELECT $1::pg_catalog.regclass::pg_catalog.oid", TEXT, text)
    return int(oid)


def may_select(session: CatalogSession, relid: int) -> bool:
    """Return whether the role may read a table."""
    sql = "SELECT has_table_privilege($1, 'SELECT')"
    return _texts(session, sql, OID, str(relid)) == ["t"]


def may_use_sequence(session: CatalogSession, sequence: int) -> bool:
    """Return whether the role may draw values from a sequence."""
    sql = "SELECT pg_catalog.has_sequence_privilege($1, 'USAGE, UPDATE')"
    return _texts(session, sql, OID, str(sequence)) == ["t"]


def draw(
    session: CatalogSession, function: str, sequence: int | None, kind: str | None, count: int
) -> list[str]:
    """Have PostgreSQL call one of its functions so many times; return what it says as text.

    Args:
        session: The client's session, whose rights count.
        function: Name of the function.
        sequence: OID of the sequence that it is called with; None: with nothing.
        kind: Name of the type of PostgreSQL's that the values are cast to; None: as they are.
        count: How often it is called.

    Raises:
        GatewayError: PostgreSQL's own errors.
    """
    argument = "" if sequence is None else f"{sequence}::pg_catalog.oid::pg_catalog.regclass"
    value = f"pg_catalog.{function}({argument})"
    if kind is not None:
        value = f"({value})::pg_catalog.{kind}"
    # Called for each row: nothing is drawn ahead.
    sql = f"SELECT {value}::pg_catalog.text FROM pg_catalog.generate_series(1, $1)"  # noqa: S608
    return _texts(session, sql, INT4, str(count))


def may_insert(session: CatalogSession, relid: int) -> bool:
    """Return whether the role may insert values of all columns of a table, generated ones aside."""
    sql = (
        "SELECT bool_and(has_column_privilege($1, a.attnum, 'INSERT')) FROM pg_attribute a"
        " WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''"
    )
    return _texts(session, sql, OID, str(relid)) == ["t"]


def tables_of_missing(
    session: CatalogSession, missing: Sequence[str], tables: Sequence[str]
) -> list[int]:
    """Return the OID of each table whose counterpart in the first list is no relation, else 0.

    Both are given as SQL and looked up along the search path.
    """
    arrays = [
        json.dumps(list(texts)).encode("utf-8", "surrogateescape") for texts in (missing, tables)
    ]
    result = session.execute_parameters(
        "SELECT CASE WHEN pg_catalog.to_regclass(m) IS NULL"
        " THEN pg_catalog.to_regclass(t)::pg_catalog.oid END"
        " FROM pg_catalog.json_array_elements_text($1) WITH ORDINALITY a(m, o)"
        " JOIN pg_catalog.json_array_elements_text($2) WITH ORDINALITY b(t, o) USING (o)"
        " ORDER BY o",
        arrays,
        parameter_oids=[JSON, JSON],
        is_own=True,
    )
    return [int(row[0] or b"0") for row in result.rows]


def lockable(session: CatalogSession, relids: Sequence[int]) -> list[int]:
    """Return those tables, and those of these indexes, that the role may define or change."""
    result = session.execute_parameters(
        "SELECT c.oid FROM pg_catalog.pg_class c WHERE c.oid IN (SELECT coalesce(i.indrelid, a.o)"
        " FROM pg_catalog.unnest($1) a(o)"
        " LEFT JOIN pg_catalog.pg_index i ON i.indexrelid = a.o)"
        " AND (pg_catalog.pg_has_role(c.relowner, 'USAGE')"
        " OR pg_catalog.has_table_privilege(c.oid, 'UPDATE, DELETE, TRUNCATE, MAINTAIN'))",
        [("{" + ",".join(map(str, relids)) + "}").encode()],
        parameter_oids=[OID_ARRAY],
        is_own=True,
    )
    return [int(row[0] or b"0") for row in result.rows]


def tables_in(session: CatalogSession, schemas: Sequence[str]) -> list[int]:
    """Return the tables of some schemas; of a schema that does not exist there are none."""
    result = session.execute_parameters(
        "SELECT c.oid FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n"
        " ON n.oid = c.relnamespace WHERE c.relkind = 'r'"
        " AND n.nspname IN (SELECT pg_catalog.json_array_elements_text($1))",
        [json.dumps(list(schemas)).encode("utf-8", "surrogateescape")],
        parameter_oids=[JSON],
        is_own=True,
    )
    return [int(row[0] or b"0") for row in result.rows]


def relation_oids(session: CatalogSession, named: Sequence[RelationName]) -> list[int]:
    """Return the OID of each relation as the session's search path finds it, else 0."""
    listed = [qualified(name) for name in named]
    encoded = json.dumps(listed).encode("utf-8", "surrogateescape")
    result = session.execute_parameters(
        "SELECT pg_catalog.to_regclass(n)::pg_catalog.oid"
        " FROM pg_catalog.json_array_elements_text($1) WITH ORDINALITY a(n, o) ORDER BY o",
        [encoded],
        parameter_oids=[JSON],
        is_own=True,
    )
    return [int(row[0] or b"0") for row in result.rows]


def view_query(session: CatalogSession, relid: int) -> str:
    """Return the query of a view, in which all names are qualified."""
    transaction = session.transaction
    transaction.savepoint(_VIEW_SAVEPOINT)
    for _ in session.execute("SET LOCAL search_path TO pg_catalog").rows:
        pass
    (text,) = _texts(session, "SELECT pg_catalog.pg_get_viewdef($1)", OID, str(relid))
    transaction.abandon(_VIEW_SAVEPOINT)
    return text


def current_schema(session: CatalogSession) -> str:
    """Return the schema that a table without one is created in."""
    (schema,) = _texts(session, "SELECT pg_catalog.current_schema()", TEXT)
    return schema


def is_in_current_schema(session: CatalogSession, relid: int) -> bool:
    """Return whether a relation is in the schema where new ones are made."""
    sql = (
        "SELECT n.nspname = current_schema() FROM pg_catalog.pg_class c"
        " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = $1"
    )
    return _texts(session, sql, OID, str(relid)) == ["t"]


def has_access_method(session: CatalogSession, name: str) -> bool:
    """Return whether there is a method of this name to keep the rows of tables by."""
    sql = "SELECT 1 FROM pg_catalog.pg_am WHERE amtype = 't' AND amname = $1"
    return bool(_texts(session, sql, TEXT, name))


def may_use_files(session: CatalogSession) -> bool:
    """Return whether the role has the privileges of the one that may read and write files."""
    # Names and operators are PostgreSQL's own, whatever the client has put before them.
    sql = (
        "SELECT pg_catalog.pg_has_role(r.oid, 'USAGE'::pg_catalog.text)"
        " FROM pg_catalog.pg_roles r WHERE r.rolname OPERATOR(pg_catalog.=) $1::pg_catalog.name"
    )
    return _texts(session, sql, TEXT, IMPORT_ROLE) == ["t"]


def cut_table(
    session: CatalogSession, missing: str, schema: str | None, cut: str, most_bytes: int
) -> int:
    """Return the OID of the one table whose name is this one when it is cut off, else 0.

    Args:
        session: Whose search path counts.
        missing: A name, as SQL; where a relation bears it there is no such table.
        schema: Where to look; None for the search path.
        cut: The beginning of the name, of whole characters.
        most_bytes: How many bytes there is room for.
    """
    result = session.execute_parameters(
        "SELECT c.oid FROM pg_catalog.pg_class c"
        " WHERE pg_catalog.to_regclass($1) IS NULL AND c.relkind IN ('r', 'p')"
        " AND pg_catalog.left(c.relname, pg_catalog.length($3)) = $3"
        " AND pg_catalog.octet_length(pg_catalog.left(c.relname, pg_catalog.length($3) + 1))"
        " > $4::int"
        " AND CASE WHEN $2 = '' THEN pg_catalog.pg_table_is_visible(c.oid)"
        " ELSE c.relnamespace = pg_catalog.to_regnamespace(pg_catalog.quote_ident($2)) END",
        [
            *(text.encode("utf-8", "surrogateescape") for text in (missing, schema or "", cut)),
            str(most_bytes).encode(),
        ],
        parameter_oids=[TEXT] * 4,
        is_own=True,
    )
    found = [int(row[0] or b"0") for row in result.rows]
    return found[0] if len(found) == 1 else 0


def identifiers(session: CatalogSession, names: Sequence[str]) -> str:
    """Return names parted by commas, each quoted where it must be, as PostgreSQL's messages do."""
    marks = ", ".join(f"(${number + 1})" for number in range(len(names)))
    sql = f"SELECT quote_ident(n) FROM (VALUES {marks}) v(n)"  # noqa: S608 - parameters only
    return ", ".join(_texts(session, sql, TEXT, *names))


def copied_columns(session: CatalogSession, name: RelationName) -> list[str]:
    """Return the columns COPY TO writes when none are named: all that are not generated."""
    return _texts(
        session,
        "SELECT attname FROM pg_catalog.pg_attribute WHERE attrelid = $1 AND attnum > 0"
        " AND NOT attisdropped AND attgenerated = '' ORDER BY attnum",
        OID,
        str(relation_oid(session, name)),
    )


def have_defaults(session: CatalogSession, relids: Iterable[int]) -> bool:
    """Return whether columns of any of these relations have a default."""
    sql = "SELECT 1 FROM pg_catalog.pg_attrdef WHERE adrelid = ANY ($1) LIMIT 1"
    return bool(_texts(session, sql, OID_ARRAY, "{" + ",".join(map(str, relids)) + "}"))


def columns_with_defaults(session: CatalogSession, relid: int) -> set[int]:
    """Return the attribute numbers of the columns of a table that have a default, or draw one."""
    sql = (
        "SELECT attnum FROM pg_catalog.pg_attribute WHERE attrelid = $1 AND attnum > 0"
        " AND (atthasdef OR attidentity <> '')"
    )
    return set(map(int, _texts(session, sql, OID, str(relid))))


def encoding(session: CatalogSession, name: str) -> str:
    """Return PostgreSQL's own name of an encoding, which has several."""
    sql = "SELECT pg_catalog.pg_encoding_to_char(pg_catalog.pg_char_to_encoding($1))"
    return _texts(session, sql, TEXT, name)[0]


def collation(session: CatalogSession, oid: int) -> str:
    """Return the name of a collation, its OID when it is gone."""
    sql = "SELECT collname FROM pg_catalog.pg_collation WHERE oid = $1"
    found = _texts(session, sql, OID, str(oid))
    return found[0] if found else str(oid)


def function(session: CatalogSession, oid: int) -> str:
    """Return the name of a function with the types of its arguments, its OID when it is gone."""
    sql = "SELECT $1::pg_catalog.regprocedure::pg_catalog.text"
    return _texts(session, sql, OID, str(oid))[0]


def has_system_triggers(session: CatalogSession, name: RelationName) -> bool:
    """Return whether PostgreSQL itself has put triggers on a table, as for its references."""
    sql = (
        "SELECT 1 FROM pg_catalog.pg_trigger WHERE tgrelid = pg_catalog.to_regclass($1)"
        " AND tgisinternal AND NOT pg_catalog.starts_with(tgname, 'pgwire_') LIMIT 1"
    )
    return bool(_texts(session, sql, TEXT, qualified(name)))


def is_in_tree(session: CatalogSession, relid: int) -> bool:
    """Return whether a table inherits from another one or is inherited from, as partitions are."""
    sql = "SELECT 1 FROM pg_catalog.pg_inherits WHERE $1 IN (inhrelid, inhparent) LIMIT 1"
    return bool(_texts(session, sql, OID, str(relid)))


def relation_name(session: CatalogSession, relid: int) -> str:
    """Return a relation as SQL, with its schema.

    The name is the one by which statements find it, whatever the transaction's snapshot shows.

    Raises:
        GatewayError: 42P01 where others have dropped it.
    """
    sql = (
        "SELECT schema || '.' || name"
        " FROM pg_catalog.pg_identify_object('pg_catalog.pg_class'::pg_catalog.regclass, $1, 0)"
    )
    (found,) = _texts(session, sql, OID, str(relid))
    if not found:
        raise GatewayError(f"relation with OID {relid} does not exist", sqlstate=UNDEFINED_TABLE)
    return found


def may_lock(session: CatalogSession, relid: int) -> bool:
    """Return whether the role may keep others from writing a table."""
    sql = "SELECT has_table_privilege($1, 'UPDATE, DELETE, TRUNCATE, MAINTAIN')"
    return _texts(session, sql, OID, str(relid)) == ["t"]


def type_name(session: CatalogSession, type_oid: int, typmod: int) -> str:
    """Return a type as SQL."""
    sql = "SELECT pg_catalog.format_type($1::pg_catalog.oid, $2::pg_catalog.int4)"
    (name,) = _texts(session, sql, TEXT, str(type_oid), str(typmod))
    return name


_SHADOW: Final = """
SELECT 1 FROM pg_catalog.pg_class c
 WHERE c.relname = $1 AND c.relnamespace IN (
     pg_catalog.pg_my_temp_schema(), 'pg_catalog'::pg_catalog.regnamespace)
"""


def require_unshadowed(session: CatalogSession, name: RelationName) -> None:
    """Refuse the name of a new table that stands for a temporary or system one first (42P07)."""
    if name.schema is not None:
        return
    if any(True for _ in _texts(session, _SHADOW, 19, name.name)):
        raise GatewayError(
            f'relation "{name.name}" already exists',
            sqlstate=DUPLICATE_TABLE,
            hint="Name the schema of the new table.",
        )


def primary_key(session: CatalogSession, relid: int) -> str:
    """Return the name of a table's primary key constraint."""
    sql = "SELECT conname FROM pg_catalog.pg_constraint WHERE conrelid = $1 AND contype = 'p'"
    (name,) = _texts(session, sql, OID, str(relid))
    return name


def _texts(session: CatalogSession, sql: str, type_oid: int, *values: str) -> list[str]:
    """Return the first column of a query with parameters of one type."""
    result = session.execute_parameters(
        sql,
        [value.encode("utf-8", "surrogateescape") for value in values],
        parameter_oids=[type_oid] * len(values),
        is_own=True,
    )
    return [(row[0] or b"").decode("utf-8", "surrogateescape") for row in result.rows]


def load(
    session: CatalogSession,
    table: str,
    columns: Iterable[str],
    lines: Iterable[bytes | memoryview],
) -> str:
    """Copy lines of COPY's text format, in UTF-8, into columns of a catalog table; return the tag.

    The table's name is given as SQL, those of the columns as they are.

    Raises:
        CatalogError: What PostgreSQL finds wrong with the rows.
    """
    listed = ", ".join(quoted(column) for column in columns)
    with array_nulls(session):
        incoming = session.copy_in(
            f"COPY {table} ({listed}) FROM STDIN (ENCODING 'UTF8')", is_own=True
        )
        source: Iterator[bytes | memoryview] = iter(lines)
        try:
            for data in source:
                incoming.write(bytes(data))
        except BaseException:
            with suppress(CatalogError):
                incoming.fail("the rows could not be read")
            raise
        return incoming.finish()


@contextmanager
def array_nulls(session: CatalogSession) -> Iterator[None]:
    """Have NULL read as what was written in the texts of arrays, not as a text itself.

    Whatever fails meanwhile ends the transaction, and with it what is set here.
    """
    (before,) = _texts(session, _ARRAY_NULLS, TEXT)
    if before != "on":
        _texts(session, _SET_ARRAY_NULLS, TEXT, "on")
    yield
    if before != "on":
        _texts(session, _SET_ARRAY_NULLS, TEXT, before)


def domain_constraints(session: CatalogSession, domain: int) -> list[str]:
    """Return the checks of a domain, and of those it is made of, as ``pg_constraint.conbin``."""
    sql = """
        WITH RECURSIVE made_of (oid) AS (
            SELECT $1::pg_catalog.text::pg_catalog.oid
            UNION
            SELECT t.typbasetype FROM made_of m JOIN pg_catalog.pg_type t USING (oid)
             WHERE t.typtype = 'd'
        )
        SELECT c.conbin::pg_catalog.text
          FROM made_of m JOIN pg_catalog.pg_constraint c ON c.contypid = m.oid
         WHERE c.contype = 'c'
    """
    return _texts(session, sql, TEXT, str(domain))


def domains(session: CatalogSession, wanted: Iterable[int]) -> dict[int, Domain]:
    """Return what the values of domains have to be, by their OIDs.

    The order of checks follows PostgreSQL's ``GetDomainConstraints``.
    """
    sql = """
        WITH RECURSIVE made_of (domain, oid, depth) AS (
            SELECT u.o, u.o, 0 FROM pg_catalog.unnest($1::pg_catalog.oid[]) u (o)
            UNION ALL
            SELECT m.domain, t.typbasetype, m.depth + 1
              FROM made_of m JOIN pg_catalog.pg_type t USING (oid) WHERE t.typtype = 'd'
        )
        SELECT pg_catalog.json_build_array(
                   d.oid::pg_catalog.int8, n.nspname, d.typname,
                   pg_catalog.format_type(d.oid, NULL),
                   (SELECT pg_catalog.bool_or(t.typnotnull)
                      FROM made_of m JOIN pg_catalog.pg_type t ON t.oid = m.oid
                     WHERE m.domain = d.oid AND t.typtype = 'd'),
                   (SELECT pg_catalog.json_agg(
                               pg_catalog.json_build_array(c.conname, c.conbin)
                               ORDER BY m.depth DESC, c.conname)
                      FROM made_of m JOIN pg_catalog.pg_constraint c ON c.contypid = m.oid
                     WHERE m.domain = d.oid AND c.contype = 'c'))::pg_catalog.text
          FROM pg_catalog.pg_type d JOIN pg_catalog.pg_namespace n ON n.oid = d.typnamespace
         WHERE d.oid = ANY ($1)
    """
    found = {}
    for text in _texts(session, sql, OID_ARRAY, "{" + ",".join(map(str, sorted(wanted))) + "}"):
        oid, schema, name, spelled, is_not_null, checks = json.loads(text)
        constraints = tuple(DomainCheck(*check) for check in checks or ())
        found[oid] = Domain(schema, name, spelled, is_not_null, constraints)
    return found


def volatilities(session: CatalogSession, functions: Iterable[int]) -> dict[int, str]:
    """Return what pg_proc says of functions: i (immutable), s (stable) or v (volatile)."""
    sql = "SELECT pg_catalog.concat(provolatile, oid) FROM pg_catalog.pg_proc WHERE oid = ANY ($1)"
    found = _texts(session, sql, OID_ARRAY, "{" + ",".join(map(str, functions)) + "}")
    return {int(text[1:]): text[0] for text in found}
