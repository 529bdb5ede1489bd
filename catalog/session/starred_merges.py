"""MERGE with ``UPDATE SET *`` and ``INSERT *``, with the columns of the target in their place."""

from dataclasses import dataclass, replace

from catalog.errors import GatewayError
from catalog.extensions.merge import StarredMerge
from catalog.extensions.translation import Translation
from catalog.session import names
from catalog.session.connections import CatalogSession
from catalog.statements.splitting import RelationName, Statement, split


@dataclass(frozen=True, slots=True)
class NamedColumns:
    """A statement that names the columns, and how its errors read to the client."""

    statement: Statement
    translation: Translation

    def translate(self, error: GatewayError) -> GatewayError:
        """Return an error with the position it has in what was sent."""
        if error.position is not None:
            error.position = self.translation.place(error.position)
        return error


def named(catalog: CatalogSession, statement: Statement) -> NamedColumns | None:
    """Return a MERGE with the columns its stars stand for now; None for any other statement."""
    merge: StarredMerge | None = statement.details.get("stars")
    if merge is None:
        return None
    targets = [RelationName(*part.target) for part in merge.parts]
    relids = names.relation_oids(catalog, targets)
    columns = [
        list(map(names.quoted, names.copied_columns(catalog, target))) if relid else []
        for target, relid in zip(targets, relids, strict=True)
    ]
    translation = merge.with_columns(columns)
    (inner,) = split(translation.text)
    return NamedColumns(replace(inner, offset=statement.offset), translation)
