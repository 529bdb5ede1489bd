"""The rule of thaw-and-run: which rows have to be hot for PostgreSQL to run a statement itself.

A tiered table's catalog table holds its hot rows alone. A statement that PostgreSQL runs on these
does what it would do on the full tables when, for every place where a tiered table is read or
written, all current rows are hot that the statement can see there; more is harmless.

    UPDATE t SET v = 1 WHERE k = 5 AND EXISTS (SELECT FROM u WHERE u.a = t.a AND u.b > 3)

needs the rows of ``t`` with ``k = 5`` and those of ``u`` with ``b > 3``. Each place has its own
needs, also when a table stands in several. Conditions between tables (``u.a = t.a``) narrow nothing
down: either may change between the search and the statement. Only columns of VALUES lists do.

This is about READ COMMITTED, where rows that others change meanwhile are hot themselves.

Not handled: partitioned tables and inheritance (a Relation is `unfit` for that), conditions on the
output of subqueries that group, sort out or number rows and of common table expressions (what is in
them needs all rows, unless it has conditions of its own), and those that only a strict operator
makes effective above an outer join.
"""

from collections.abc import Sequence

from rewrite.needs.definitions import Definitions
from rewrite.needs.levels import levels
from rewrite.needs.reads import occurrences
from rewrite.needs.refusals import refuse
from rewrite.needs.results import Needs, Occurrence
from rewrite.needs.writes import Change, changes, search
from rewrite.tree import Node


def needs(queries: Sequence[Node], definitions: Definitions) -> Needs:
    """Return the rows that have to be hot, and what is searched after the statement ran.

    Args:
        queries: The statement as PostgreSQL's rewriter leaves it (`rewrite.pipeline.parse_tree`).
        definitions: The tables it touches.

    Raises:
        Refusal: when no rows make it safe; 0A000 with the construct.
    """
    refuse(queries, definitions)
    found: list[Occurrence] = []
    made: list[Change] = []
    for level in levels(queries[0]):
        found += occurrences(level, definitions)
        made += changes(level, definitions)
    searches = search(made, definitions)
    recorded = sorted(
        searches.recorded, key=lambda one: (one.written, one.searched, one.columns, one.keys)
    )
    written = frozenset(searches.written)
    occurrences_found = tuple(found + searches.occurrences)
    return Needs(occurrences_found, tuple(recorded), written, searches.arbitrates)
