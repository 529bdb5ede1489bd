"""What PostgreSQL keeps under the names of prepared statements."""

from dataclasses import dataclass

from catalog.pg.types import TEXT
from catalog.session.connections import CatalogSession

_STATEMENT = """
SELECT statement, pg_catalog.array_to_string(parameter_types::pg_catalog.oid[], ' ')
FROM pg_catalog.pg_prepared_statements WHERE name = $1
"""


@dataclass(frozen=True, slots=True)
class PreparedText:
    """A prepared statement as it was sent."""

    text: str
    """The statement, with PREPARE before it if it was prepared by SQL."""
    parameter_oids: tuple[int, ...]


def statement(session: CatalogSession, name: str) -> PreparedText | None:
    """Return the statement prepared under a name, None when there is none."""
    result = session.execute_parameters(
        _STATEMENT, [name.encode(session.codec)], parameter_oids=[TEXT]
    )
    rows = list(result.rows)
    if not rows:
        return None
    text, types = (value or b"" for value in rows[0])
    return PreparedText(text.decode(session.codec), tuple(map(int, types.split())))
