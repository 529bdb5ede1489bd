"""Values of rows that PostgreSQL draws when Spark has computed the rest of them."""

from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from catalog.pg import types as type_oids
from catalog.session import names
from catalog.session.connections import CatalogSession
from pgwire_gateway.session.invocation import Invocation
from rewrite.command import Command
from rewrite.errors import UnsupportedError
from rewrite.results import ACTION, PLACE, Drawn, RowChange

_INTEGERS: Final = {
    type_oids.INT2: "int2",
    type_oids.INT4: "int4",
    type_oids.INT8: "int8",
}

_READERS: Final[dict[str, Callable[[str], object]]] = {"nextval": int, "random": float}


def filled(call: Invocation, change: RowChange, batches: Iterator[Any]) -> Iterator[Any]:
    """Yield the rows of a MERGE with what is drawn for them, row by row.

    Raises:
        GatewayError: PostgreSQL's own errors: 42501 for a sequence, 2200H when it has ended, 22003
            for a number that the column cannot hold.
        UnsupportedError: The role may not use the sequence of an identity column, which PostgreSQL
            does not ask for.
    """
    types = {one.column: one.type_oid for one in change.query.columns}
    for batch in batches:
        for one in change.drawn:
            # Of a row that gets another key the old one goes as it was.
            stays = pc.not_equal(batch.column(ACTION), int(Command.DELETE))
            chosen = pc.and_(pc.equal(batch.column(PLACE), one.place), stays)
            count = pc.sum(chosen).as_py() or 0
            if not count:
                continue
            name = f"n{one.attnum}"
            values = _draw(call.session.catalog, one.drawn, types[name], count)
            for column in (name, *one.returned):
                batch = _replaced(batch, column, chosen, values)  # noqa: PLW2901 - column by column
        yield batch


def _draw(session: CatalogSession, drawn: Drawn, type_oid: int, count: int) -> list[object]:
    """Have PostgreSQL draw values, in the session of the client."""
    if drawn.owned and not names.may_use_sequence(session, drawn.sequence or 0):
        raise UnsupportedError(
            "drawing from a sequence that one may not use, for many rows, is not supported",
            hint="GRANT USAGE ON SEQUENCE, or merge fewer rows.",
        )
    kind = _INTEGERS.get(type_oid) if drawn.function == "nextval" else None
    texts = names.draw(session, drawn.function, drawn.sequence, kind, count)
    read = _READERS.get(drawn.function, str)
    return [read(text) for text in texts]


def _replaced(batch: Any, name: str, chosen: Any, values: list[object]) -> Any:
    place = batch.schema.get_field_index(name)
    field = batch.schema.field(place)
    given = pa.array(values).cast(field.type)
    column = pc.replace_with_mask(batch.column(place), chosen, given)
    return batch.set_column(place, field, column)
