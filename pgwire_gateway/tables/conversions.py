"""CONVERT: tables from files or other tables, and files from tables, computed by Spark.

What becomes a table is written as the base of its journal: rows do not pass through PostgreSQL.
"""

from collections.abc import Callable

from catalog import boolean_text
from catalog.errors import GatewayError
from catalog.extensions import convert as grammar
from catalog.extensions.convert import Convert, Files, Table
from catalog.session import names
from catalog.statements import procedure_calls
from catalog.statements.splitting import RelationName, Statement, StatementKind
from pgwire_gateway.session import procedure_arguments
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.portals import NoRows, StatementResult
from pgwire_gateway.session.progress import ProgressReport
from pgwire_gateway.tables import adoptions, exports, loads


def applies(statement: Statement) -> bool:
    """Tell whether a statement is one of these, in whichever form."""
    if statement.kind is StatementKind.CONVERT:
        return True
    return procedure_calls.calls(statement.details, procedure_calls.CONVERT)


def convert(call: Invocation, run: Callable[[str], StatementResult]) -> StatementResult:
    """Run CONVERT, or CALL gateway.convert; all is written when this returns.

    Args:
        call: The statement.
        run: Runs another statement as part of it.

    Raises:
        GatewayError: 42501 for paths and roles that may not, 58P01 for missing files, 22P04 for
            files that are not what they should be, 23502 and 23505 for keys that rows do not fit,
            25001 for files that are to be written in a transaction block, PostgreSQL's own errors
            for the table.
        UnsupportedError: 0A000 for columns without counterpart.
    """
    session = call.session
    conversion = _conversion(call)
    session.watch(call.running, call.statement.text)
    ends = (_shown(end) for end in (conversion.source, conversion.target))
    with ProgressReport(call, "CONVERT", *ends) as progress:
        rows = _converted(call, run, conversion, progress)
    tag = "CALL" if "procedure_call" in call.statement.details else f"CONVERT {rows}"
    return StatementResult(None, NoRows(), lambda _: tag)


def _converted(
    call: Invocation,
    run: Callable[[str], StatementResult],
    conversion: Convert,
    progress: ProgressReport,
) -> int:
    """Write the target, and return the number of its rows."""
    source, form = conversion.source, conversion.format
    if isinstance(conversion.target, Files):
        return exports.export(call, progress, conversion.target, source, form)
    load = loads.Load(
        call,
        run,
        progress,
        conversion.target,
        conversion.key,
        conversion.key_position,
        partitioned_by=conversion.partitioned_by,
    )
    if not isinstance(source, Files):
        return load.from_table(source)
    if conversion.in_place:
        return adoptions.adopt(load, source, form)
    return load.from_files(source, form)


def _shown(end: Table | Files) -> str:
    """Return a source or a target as others are told of it."""
    if isinstance(end, Files):
        return end.path
    return names.qualified(RelationName(*end.relation))


def _conversion(call: Invocation) -> Convert:
    details = call.statement.details
    if "procedure_call" not in details:
        found: Convert = details["convert"]
        return found
    given = procedure_arguments.read(call)
    procedure_arguments.require(given, "target", "source")
    try:
        conversion = Convert(
            grammar.parse_end(given["target"]),
            grammar.parse_end(given["source"]),
            grammar.checked_format(given["format"]) if "format" in given else None,
            grammar.parse_key(given["key"]) if "key" in given else (),
            in_place=boolean_text.parse(given.get("in_place", "false")),
        )
        grammar.require_meaning(conversion)
    except GatewayError as error:
        error.position = None  # that in an argument
        raise
    return conversion
