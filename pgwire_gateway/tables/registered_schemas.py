"""CALL gateway.register_schema(…): tables that stand for a whole schema of another database."""

from collections.abc import Callable

from catalog.errors import GatewayError
from catalog.extensions.grammar import Tokens
from catalog.pg import sqlstate as codes
from catalog.session import names
from catalog.statements import procedure_calls
from catalog.statements.splitting import RelationName, Statement
from pgwire_gateway.files.allowed_paths import require_privilege
from pgwire_gateway.messages.responses import NoticeResponse
from pgwire_gateway.session import procedure_arguments
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.portals import NoRows, StatementResult
from pgwire_gateway.spark.relation_loads import relations_of
from pgwire_gateway.tables.registrations import Registration, register_one
from pgwire_gateway.tables.source_files import allowed

_SAVEPOINT = "pgwire_registered"


def applies(statement: Statement) -> bool:
    """Tell whether a statement registers a schema."""
    return procedure_calls.calls(statement.details, procedure_calls.REGISTER_SCHEMA)


def register(call: Invocation, run: Callable[[str], StatementResult]) -> StatementResult:
    """Run CALL gateway.register_schema.

    Relations whose names are taken stay as they are. Those that cannot stand here are left out,
    with a warning.

    Raises:
        GatewayError: 42501 for roles and paths that may not, 58P01 for a missing file, 3F000 for a
            missing schema, HV000 for what the other database refuses.
    """
    catalog = call.session.catalog
    given = procedure_arguments.read(call)
    procedure_arguments.require(given, "target", "location", "connection")
    try:
        target, theirs = _name(given["target"]), _name(given["location"])
        without = _names(given.get("without", ""))
    except GatewayError as error:
        error.position = None  # that in an argument
        raise
    require_privilege(catalog)
    call.session.transaction.begin_implicit()
    call.session.watch(call.running, call.statement.text)
    (path,) = allowed(call.session).existing(given["connection"])
    found = relations_of(call.session.services.engine, str(path), theirs, call.running)
    for name in found:
        wanted = RelationName(target, name)
        if name in without or _is_taken(call, wanted):
            continue
        location = names.quoted(theirs, name)
        one = Registration(
            wanted, location, (), version="", subsequent="", connection=given["connection"]
        )
        _register(call, run, one)
    return StatementResult(None, NoRows(), lambda _: "CALL")


def _name(text: str) -> str:
    tokens = Tokens(text)
    name = tokens.name()
    tokens.expect_end()
    return name


def _names(text: str) -> frozenset[str]:
    tokens, found = Tokens(text), set()
    while text.strip():
        found.add(tokens.name())
        if not tokens.accept(","):
            tokens.expect_end()
            break
    return frozenset(found)


def _is_taken(call: Invocation, name: RelationName) -> bool:
    (relid,) = names.relation_oids(call.session.catalog, [name])
    return bool(relid)


def _register(
    call: Invocation, run: Callable[[str], StatementResult], wanted: Registration
) -> None:
    session = call.session
    session.catalog.transaction.savepoint(_SAVEPOINT)
    try:
        register_one(call, run, wanted)
    except GatewayError as error:
        if error.sqlstate != codes.FEATURE_NOT_SUPPORTED:
            raise
        session.catalog.transaction.roll_back_to(_SAVEPOINT)
        fields = {"S": "WARNING", "V": "WARNING", "C": codes.WARNING}
        said = f'relation "{wanted.target.name}" is left out: {error.message}'
        session.send(NoticeResponse.of(fields | {"M": said}))
    session.catalog.transaction.release(_SAVEPOINT)
