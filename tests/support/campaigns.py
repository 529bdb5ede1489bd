"""Random statements for random schemas and rows."""

import re
from collections.abc import Collection, Iterator
from itertools import count

from tests.support import random_schemas
from tests.support.random_forms import Form
from tests.support.random_statements import Statements
from tests.support.thawing import CLIENT, Thawing

STATEMENTS_OF_FILLING = 40
FILLINGS_OF_SCHEMA = 5


def campaign(
    thawing: Thawing,
    number: int,
    kinds: Collection[str] = (),
    favoured: Collection[Form] = (),
    number_type: str = "int",
) -> Iterator[str]:
    """Yield so many random statements, each for the schema and the rows that are there then.

    Args:
        thawing: Where they run.
        number: How many.
        kinds: What they begin with; others are left out.
        favoured: Forms that are drawn far more often than usual, in half of the statements.
        number_type: The type of the columns.
    """
    chance = thawing.random_source
    done = 0
    for schema in count():
        if done == number:
            return
        others = [*random_schemas.OTHERS, *random_schemas.triggers(chance)]
        tables = random_schemas.schema(chance)
        for name, body in tables.items():
            tables[name] = body.replace(" int", f" {number_type}")
        kept = Form.KEPT in favoured or schema % 3 == 1
        has_policies = Form.POLICED in favoured or schema % 5 == 2
        others += random_schemas.indexes(chance) if kept else []
        others += random_schemas.policies(chance, CLIENT) if has_policies else []
        readable = random_schemas.READABLE
        thawing.define(tables, others, readable, kept_afterwards=kept, has_policies=has_policies)
        statements = Statements(chance, kinds, favoured)
        for _ in range(FILLINGS_OF_SCHEMA):
            thawing.fill(random_schemas.rows(chance))
            for _ in range(min(STATEMENTS_OF_FILLING, number - done)):
                done += 1
                cast = "::" + number_type.partition("(")[0]
                yield re.sub(r"::int\b", cast, statements.statement())
