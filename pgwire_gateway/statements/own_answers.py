"""Answering statements about the gateway itself."""

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

from catalog.statements.call_arguments import Parameter
from catalog.statements.splitting import StatementKind
from pgwire_gateway.planning import own_statements
from pgwire_gateway.session import binding
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.portals import NoRows, StatementResult, format_codes
from pgwire_gateway.session.results import CatalogRows, field_descriptions
from pgwire_gateway.statements import checking, rollbacks
from pgwire_gateway.statements.rollbacks import Run
from rewrite.context import UnreadValue
from rewrite.errors import UnsupportedError

_BY_NAME: Final[Mapping[str, Callable[..., int]]] = {
    own_statements.ROLLBACK_COMMIT: rollbacks.roll_back,
    own_statements.CREATE_SAVEPOINT: rollbacks.create_savepoint,
    own_statements.ROLLBACK_TO_SAVEPOINT: rollbacks.go_back,
    own_statements.DELETE_SAVEPOINT: rollbacks.delete_savepoint,
}


def answer(call: Invocation, run: Run) -> StatementResult:
    """Answer a statement; what has to be done for that is run as the client would.

    Raises:
        GatewayError: What the functions say.
    """
    columns = call.columns
    if columns is None:
        return StatementResult(None, NoRows(), lambda _: "SELECT 0")
    code = format_codes(call.result_formats, 1)[0]
    if call.statement.kind is StatementKind.SHOW:
        value, tag = call.session.encoded(call.session.last_decision), "SHOW"
    else:
        found = _number(call, run)
        value, tag = (struct.pack("!q", found) if code else str(found).encode()), "SELECT 1"
    rows = CatalogRows([[value]], [columns[0].type_oid], (code,), are_held=True)
    return StatementResult(field_descriptions(columns, (code,)), rows, lambda _: tag)


def _read(value: object) -> object:
    if isinstance(value, UnreadValue):
        raise UnsupportedError(value.refusal)
    return value


def _number(call: Invocation, run: Run) -> int:
    name, given = own_statements.called(call.statement)
    bound = binding.bind(call)
    arguments: list[Any] = [
        _read(bound[one.number - 1].value) if isinstance(one, Parameter) else one for one in given
    ]
    if name == own_statements.CHECK:
        return checking.differences_of(call, arguments[0])
    return _BY_NAME[name](call, run, *arguments)
