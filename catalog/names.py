"""Names of relations to what the catalog knows of them, as the session's role sees it."""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from catalog.connections import CatalogSession
from catalog.errors import CatalogError
from catalog.statements import RelationName

_TEXT = 25
_JSON = 114
_OID = 26
_OID_ARRAY = 1028

_STATEMENT_TIMEOUT = "SELECT extract(epoch FROM current_setting('statement_timeout')::interval)"


def quoted(*names: str) -> str:
    """Return a possibly qualified name as SQL."""
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)


def relation_oid(session: CatalogSession, name: RelationName) -> int:
    """Return the OID of a relation as the session's search path finds it.

    Raises:
        CatalogError: 42P01 when there is none, 3F000 when its schema is missing.
    """
    parts = (name.schema, name.name) if name.schema else (name.name,)
    (oid,) = _texts(session, "SELECT $1::regclass::oid", _TEXT, quoted(*parts))
    return int(oid)


def named_relation(session: CatalogSession, text: str) -> int:
    """Return the OID of the relation that a text names as regclass does.

    Raises:
        CatalogError: 42P01 when there is none, 42602 for no name.
    """
    (oid,) = _texts(session, "SELECT $1::regclass::oid", _TEXT, text)
    return int(oid)


def may_select(session: CatalogSession, relid: int) -> bool:
    """Return whether the role may read a table."""
    sql = "SELECT has_table_privilege($1, 'SELECT')"
    return _texts(session, sql, _OID, str(relid)) == ["t"]


def is_set(session: CatalogSession, setting: str) -> bool:
    """Return whether a setting of ours has a value."""
    return _texts(session, "SELECT current_setting($1, true) IS NULL", _TEXT, setting) == ["f"]


def tables_of_missing(
    session: CatalogSession, missing: Sequence[str], tables: Sequence[str]
) -> list[int]:
    """Return the OID of each table whose counterpart in the first list is no relation, else 0.

    Both are given as SQL and looked up along the search path.
    """
    arrays = [
        json.dumps(list(texts)).encode(session.codec, "surrogateescape")
        for texts in (missing, tables)
    ]
    result = session.execute_parameters(
        "SELECT CASE WHEN to_regclass(m) IS NULL THEN to_regclass(t)::oid END"
        " FROM json_array_elements_text($1) WITH ORDINALITY a(m, o)"
        " JOIN json_array_elements_text($2) WITH ORDINALITY b(t, o) USING (o) ORDER BY o",
        arrays,
        parameter_oids=[_JSON, _JSON],
    )
    return [int(row[0] or b"0") for row in result.rows]


def relation_oids(session: CatalogSession, named: Sequence[RelationName]) -> list[int]:
    """Return the OID of each relation as the session's search path finds it, else 0."""
    listed = [quoted(*filter(None, (name.schema, name.name))) for name in named]
    encoded = json.dumps(listed).encode(session.codec, "surrogateescape")
    result = session.execute_parameters(
        "SELECT pg_catalog.to_regclass(n)::oid FROM pg_catalog.json_array_elements_text($1)"
        " WITH ORDINALITY a(n, o) ORDER BY o",
        [encoded],
        parameter_oids=[_JSON],
    )
    return [int(row[0] or b"0") for row in result.rows]


def cut_table(
    session: CatalogSession, missing: str, schema: str | None, cut: str, most_bytes: int
) -> int:
    """Return the OID of the one table whose name, cut off after so many bytes, is this; else 0.

    Args:
        session: Whose search path counts.
        missing: A name, as SQL; where a relation bears it there is no such table.
        schema: Where to look; None for the search path.
        cut: The beginning of the name, of whole characters.
        most_bytes: After how many bytes it is cut off.
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
            *(
                text.encode(session.codec, "surrogateescape")
                for text in (missing, schema or "", cut)
            ),
            str(most_bytes).encode(),
        ],
        parameter_oids=[_TEXT] * 4,
    )
    found = [int(row[0] or b"0") for row in result.rows]
    return found[0] if len(found) == 1 else 0


def identifiers(session: CatalogSession, names: Sequence[str]) -> str:
    """Return names parted by commas, each quoted where it must be, as PostgreSQL's messages do."""
    marks = ", ".join(f"(${number + 1})" for number in range(len(names)))
    sql = f"SELECT quote_ident(n) FROM (VALUES {marks}) v(n)"  # noqa: S608 - parameters only
    return ", ".join(_texts(session, sql, _TEXT, *names))


def copied_columns(session: CatalogSession, name: RelationName) -> list[str]:
    """Return the columns COPY TO writes when none are named: all that are not generated."""
    return _texts(
        session,
        "SELECT attname FROM pg_attribute WHERE attrelid = $1 AND attnum > 0"
        " AND NOT attisdropped AND attgenerated = '' ORDER BY attnum",
        _OID,
        str(relation_oid(session, name)),
    )


def have_defaults(session: CatalogSession, relids: Iterable[int]) -> bool:
    """Return whether columns of any of these relations have a default."""
    sql = "SELECT 1 FROM pg_attrdef WHERE adrelid = ANY ($1) LIMIT 1"
    return bool(_texts(session, sql, _OID_ARRAY, "{" + ",".join(map(str, relids)) + "}"))


def collation(session: CatalogSession, oid: int) -> str:
    """Return the name of a collation, its OID when it is gone."""
    found = _texts(session, "SELECT collname FROM pg_collation WHERE oid = $1", _OID, str(oid))
    return found[0] if found else str(oid)


def has_system_triggers(session: CatalogSession, name: RelationName) -> bool:
    """Return whether PostgreSQL itself has put triggers on a table, as for its references."""
    sql = (
        "SELECT 1 FROM pg_trigger WHERE tgrelid = to_regclass($1) AND tgisinternal"
        " AND tgname !~ '^pgwire_' LIMIT 1"
    )
    parts = (name.schema, name.name) if name.schema else (name.name,)
    return bool(_texts(session, sql, _TEXT, quoted(*parts)))


def primary_key(session: CatalogSession, relid: int) -> str:
    """Return the name of a table's primary key constraint."""
    sql = "SELECT conname FROM pg_constraint WHERE conrelid = $1 AND contype = 'p'"
    (name,) = _texts(session, sql, _OID, str(relid))
    return name


def _texts(session: CatalogSession, sql: str, type_oid: int, *values: str) -> list[str]:
    """Return the first column of a query with parameters of one type."""
    codec = session.codec
    result = session.execute_parameters(
        sql,
        [value.encode(codec, "surrogateescape") for value in values],
        parameter_oids=[type_oid] * len(values),
    )
    return [(row[0] or b"").decode(codec, "surrogateescape") for row in result.rows]


def load(
    session: CatalogSession,
    table: str,
    columns: Iterable[str],
    lines: Iterable[bytes | memoryview],
) -> str:
    """Copy lines of COPY's text format into some columns of a catalog table; return the tag.

    The table's name is given as SQL, those of the columns as they are.

    Raises:
        CatalogError: What PostgreSQL finds wrong with the rows.
    """
    listed = ", ".join(quoted(column) for column in columns)
    incoming = session.copy_in(f"COPY {table} ({listed}) FROM STDIN", is_own=True)
    source: Iterator[bytes | memoryview] = iter(lines)
    try:
        for data in source:
            incoming.write(bytes(data))
    except BaseException:
        with suppress(CatalogError):
            incoming.fail("the rows could not be read")
        raise
    return incoming.finish()


def fail_transaction(session: CatalogSession) -> None:
    """Put an open transaction into its failed state, as any error of PostgreSQL's does."""
    with suppress(CatalogError):
        for _ in session.execute("FAILED").rows:
            pass


def is_read_only(session: CatalogSession) -> bool:
    """Return whether the transaction is a read-only one."""
    return _setting(session, "transaction_read_only") == b"on"


def keeps_snapshot(session: CatalogSession) -> bool:
    """Return whether all statements of the transaction see the same moment."""
    return _setting(session, "transaction_isolation") in {b"repeatable read", b"serializable"}


def refuses_views(session: CatalogSession) -> bool:
    """Return whether PostgreSQL reads no views but its own, as programs that dump ask for."""
    return b"view" in _setting(session, "restrict_nonsystem_relation_kind")


def _setting(session: CatalogSession, name: str) -> bytes:
    (row,) = session.execute(f"SHOW {name}").rows
    return row[0] or b""


def statement_timeout_s(session: CatalogSession) -> float:
    """Return statement_timeout in seconds; 0 when there is no limit."""
    (row,) = session.execute(_STATEMENT_TIMEOUT).rows
    return float(row[0] or b"0")


def volatile(session: CatalogSession, functions: Iterable[int]) -> frozenset[int]:
    """Return those functions that may do something beside returning a value."""
    sql = "SELECT oid FROM pg_proc WHERE oid = ANY ($1) AND provolatile = 'v'"
    found = _texts(session, sql, _OID_ARRAY, "{" + ",".join(map(str, functions)) + "}")
    return frozenset(map(int, found))
