"""Query strings of which it is known what tables they are likely to read, by those before them.

Clients send the same query with other values again and again. What its tables hold can be asked for
with its analysis then, in one round trip; nothing rests on the guess.
"""

from catalog.statements.splitting import Statement, StatementKind
from pgwire_gateway.planning import router
from pgwire_gateway.planning.plans import Plan
from pgwire_gateway.session.observer import Observer
from pgwire_gateway.session.shortcuts import KEPT_BYTES, shape
from pgwire_gateway.session.state import ClientSession


def plan(session: ClientSession, query_string: str, statement: Statement) -> Plan:
    """Plan a query string of one statement, and remember what it reads.

    Raises:
        GatewayError: As of `router.plan`.
    """
    catalog = session.catalog
    if statement.kind is not StatementKind.SELECT or len(query_string) > KEPT_BYTES:
        return router.plan(catalog, statement, (), "")
    form = shape(query_string.encode(errors="surrogateescape"))
    tables = session.likely_tables.get(form)
    if tables is None or session.transaction.open:
        planned = router.plan(catalog, statement, (), "")
    else:
        requests = Observer(session).requests(tables)
        planned = router.plan(catalog, statement, (), "", requests)
    if planned.only_reads and not planned.trees:
        session.likely_tables.keep(form, planned.tables)
    elif tables is not None:
        del session.likely_tables[form]
    return planned
