"""Names of relations to what the catalog knows of them, as the session's role sees it."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from catalog.connections import CatalogSession
from catalog.errors import CatalogError
from catalog.statements import RelationName

_TEXT = 25
_OID = 26

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
    result = session.execute_parameters(
        "SELECT $1::regclass::oid", [quoted(*parts).encode()], parameter_oids=[_TEXT]
    )
    (row,) = result.rows
    return int(row[0] or b"0")


def identifiers(session: CatalogSession, names: Sequence[str]) -> str:
    """Return names parted by commas, each quoted where it must be, as PostgreSQL's messages do."""
    listed = ", ".join(f"${number + 1}" for number in range(len(names)))
    result = session.execute_parameters(
        f"SELECT string_agg(quote_ident(n), ', ' ORDER BY o)"  # noqa: S608 - parameters only
        f" FROM unnest(ARRAY[{listed}]) WITH ORDINALITY u(n, o)",
        [name.encode() for name in names],
        parameter_oids=[_TEXT] * len(names),
    )
    (row,) = result.rows
    return (row[0] or b"").decode()


def copied_columns(session: CatalogSession, name: RelationName) -> list[str]:
    """Return the columns COPY TO writes when none are named: all that are not generated."""
    relid = relation_oid(session, name)
    result = session.execute_parameters(
        "SELECT attname FROM pg_attribute WHERE attrelid = $1 AND attnum > 0"
        " AND NOT attisdropped AND attgenerated = '' ORDER BY attnum",
        [str(relid).encode()],
        parameter_oids=[_OID],
    )
    return [(row[0] or b"").decode() for row in result.rows]


def have_defaults(session: CatalogSession, relids: Iterable[int]) -> bool:
    """Return whether columns of any of these relations have a default."""
    listed = "{" + ",".join(map(str, relids)) + "}"
    result = session.execute_parameters(
        "SELECT EXISTS (SELECT FROM pg_attrdef WHERE adrelid = ANY ($1::oid[]))", [listed.encode()]
    )
    (row,) = result.rows
    return row[0] == b"t"


def collation(session: CatalogSession, oid: int) -> str:
    """Return the name of a collation, its OID when it is gone."""
    result = session.execute_parameters(
        "SELECT coalesce((SELECT collname FROM pg_collation WHERE oid = $1), $1::text)",
        [str(oid).encode()],
        parameter_oids=[_OID],
    )
    (row,) = result.rows
    return (row[0] or b"").decode()


def primary_key(session: CatalogSession, relid: int) -> str:
    """Return the name of a table's primary key constraint."""
    result = session.execute_parameters(
        "SELECT conname FROM pg_constraint WHERE conrelid = $1 AND contype = 'p'",
        [str(relid).encode()],
        parameter_oids=[_OID],
    )
    (row,) = result.rows
    return (row[0] or b"").decode()


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
    incoming = session.copy_in(f"COPY {table} ({listed}) FROM STDIN")
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


def statement_timeout_s(session: CatalogSession) -> float:
    """Return statement_timeout in seconds; 0 when there is no limit."""
    (row,) = session.execute(_STATEMENT_TIMEOUT).rows
    return float(row[0] or b"0")
