"""What PostgreSQL keeps under the names of prepared statements, and what EXECUTE gives these."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from catalog.errors import CatalogError
from catalog.pg.statement_tokens import Piece
from catalog.pg.types import TEXT
from catalog.session.connections import CatalogSession

_STATEMENT = """
SELECT statement, pg_catalog.array_to_string(parameter_types::pg_catalog.oid[], ' ')
FROM pg_catalog.pg_prepared_statements WHERE name = $1
"""


OWN_PREFIX: Final = "pgwire_"
"""Start of the names under which the catalog keeps statements that no client has named."""

ARGUMENTS: Final = f"{OWN_PREFIX}arguments"
"""Name the catalog has for the statement that evaluates the arguments of EXECUTE."""


@dataclass(frozen=True, slots=True)
class PreparedText:
    """A prepared statement as it was sent."""

    text: str
    """The statement, with PREPARE before it if it was prepared by SQL."""
    parameter_oids: tuple[int, ...]


def is_of_clients(name: str) -> bool:
    """Return whether a client can have prepared a statement under a name."""
    return bool(name) and not name.startswith(OWN_PREFIX)


def statement(session: CatalogSession, name: str) -> PreparedText | None:
    """Return the statement prepared under a name, None when there is none."""
    result = session.execute_parameters(
        _STATEMENT, [name.encode()], parameter_oids=[TEXT], is_own=True
    )
    rows = list(result.rows)
    if not rows:
        return None
    text, types = (value or b"" for value in rows[0])
    return PreparedText(text.decode(), tuple(map(int, types.split())))


def arguments(
    session: CatalogSession, parameter_oids: Sequence[int], given: Piece
) -> tuple[bytes | None, ...]:
    """Evaluate the arguments of EXECUTE, converted to the types of the parameters.

    Args:
        session: The session, in whose transaction that is done if it is in one.
        parameter_oids: The types, as many as there are arguments.
        given: The list of arguments, with its parentheses.

    Returns:
        The values in binary.

    Raises:
        CatalogError: What PostgreSQL finds wrong with the arguments (42804, 22P02 and others).
    """
    marks = ", ".join(f"${number + 1}" for number in range(len(parameter_oids)))
    session.analyses.deallocate_later(ARGUMENTS)
    session.analyses.analyse(f"SELECT {marks}", parameter_oids, name=ARGUMENTS, tree=False)
    start = f"EXECUTE {ARGUMENTS} "
    try:
        (row,) = session.execute(start + given.text, result_format=1).rows
    except CatalogError as error:
        if error.position is not None:
            error.position += given.offset - len(start)
        raise
    return tuple(row)
