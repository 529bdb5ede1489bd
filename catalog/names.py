"""Names of relations to what the catalog knows of them, as the session's role sees it."""

from collections.abc import Iterable, Iterator
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
