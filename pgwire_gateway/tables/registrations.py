"""CALL gateway.register_journal(…): a table that stands for a journal which others keep, too.

CALL gateway.register_table(…) is the same for what is no journal: its rows are all there is.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from catalog.errors import GatewayError
from catalog.extensions.convert import FORMATS, Files, checked_format, parse_key
from catalog.extensions.grammar import Tokens
from catalog.journal.layout import SUBSEQUENT, VERSION
from catalog.model import ExternalJournal, JournalTable
from catalog.pg import sqlstate as codes
from catalog.results import RelationKind
from catalog.session import names
from catalog.statements import procedure_calls
from catalog.statements.splitting import RelationName, Statement
from catalog.upkeep import external_journals
from pgwire_gateway.files.allowed_paths import require_privilege
from pgwire_gateway.rows.journal_writes import begin_new
from pgwire_gateway.session import procedure_arguments
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.observer import Observer
from pgwire_gateway.session.portals import NoRows, StatementResult
from pgwire_gateway.session.state import ClientSession
from pgwire_gateway.spark.external_frames import JDBC, TABLE
from pgwire_gateway.spark.file_loads import FileLoad
from pgwire_gateway.spark.relation_loads import CatalogTable, RelationLoad
from pgwire_gateway.spark.source_types import SourceColumn, spark_kind
from pgwire_gateway.tables.source_files import allowed, file_source, reading
from rewrite.dialect import oids
from rewrite.dialect.type_mapping import storage_type
from rewrite.errors import UnsupportedError

UNTYPED = frozenset({"csv", "json"})
"""Formats whose files do not tell the types of columns."""

_TOLD_AS_TEXT = frozenset({oids.TEXT, oids.VARCHAR, oids.NUMERIC})
"""Types that are text in files, and mean the same however others write them."""

_NAMED = frozenset({"version_column", "subsequent_column"})

_VERSION_KINDS = {"timestamp": "TIMESTAMP", "timestamp_ntz": "TIMESTAMP", "long": "BIGINT"}
"""Types of version numbers by what Spark's schemas call them."""


def applies(statement: Statement) -> bool:
    """Tell whether a statement registers a journal."""
    registered = (procedure_calls.REGISTER, procedure_calls.REGISTER_TABLE)
    return any(procedure_calls.calls(statement.details, name) for name in registered)


@dataclass(frozen=True, slots=True)
class Registration:
    """What is said of a journal, or of a table, when it is registered."""

    target: RelationName
    location: str
    key: tuple[str, ...]
    """None for a table."""
    format: str | None = None
    version: str = VERSION
    subsequent: str = SUBSEQUENT
    version_type: str | None = None
    """TIMESTAMP or BIGINT; None for whatever the column is."""
    columns: str = ""
    """Definitions of the table's columns, as SQL; none to go by the journal."""
    connection: str | None = None
    """File that tells how the database is reached which has the journal."""

    @property
    def is_plain(self) -> bool:
        """Whether it is a table, and no journal."""
        return not self.version


def register(call: Invocation, run: Callable[[str], StatementResult]) -> StatementResult:
    """Run CALL gateway.register_journal, or gateway.register_table.

    Raises:
        GatewayError: 42501 for roles and paths that may not, 58P01 for what is missing, 42703 for
            columns that the journal does not have, 42804 for version numbers of another type,
            23502 for keys that are NULL, PostgreSQL's own errors for the table.
        UnsupportedError: 0A000 for columns without counterpart.
    """
    given = procedure_arguments.read(call)
    try:
        if procedure_calls.calls(call.statement.details, procedure_calls.REGISTER):
            registration = _registration(given)
        else:
            registration = _registration_of_table(given)
    except GatewayError as error:
        error.position = None  # that in an argument
        raise
    require_privilege(call.session.catalog)
    call.session.transaction.begin_implicit()
    call.session.watch(call.running, call.statement.text)
    register_one(call, run, registration)
    return StatementResult(None, NoRows(), lambda _: "CALL")


def register_one(
    call: Invocation, run: Callable[[str], StatementResult], registration: Registration
) -> None:
    """Make a table that stands for a journal, or a table, of others.

    Raises:
        GatewayError: As `register`.
    """
    if registration.format == TABLE:
        _register_table(call, run, registration)
    elif registration.connection is None:
        _register_files(call, run, registration)
    else:
        _register_relation(call, run, registration, registration.connection)


def _target(given: Mapping[str, str]) -> RelationName:
    tokens = Tokens(given["target"])
    target = RelationName(*tokens.relation())
    tokens.expect_end()
    return target


def _registration_of_table(given: Mapping[str, str]) -> Registration:
    procedure_arguments.require(given, "target", "location")
    return Registration(
        _target(given),
        given["location"],
        (),
        _format(given.get("format")),
        version="",
        subsequent="",
        columns=_columns(given.get("columns", "")),
        connection=given.get("connection"),
    )


def _registration(given: Mapping[str, str]) -> Registration:
    needed = ("target", "location", "key", *sorted(_NAMED & given.keys()))
    procedure_arguments.require(given, *needed)
    target = _target(given)
    version_type = given.get("version_type")
    if version_type is not None and version_type.upper() not in _VERSION_KINDS.values():
        raise GatewayError(
            f'version type "{version_type}" not recognized',
            sqlstate=codes.INVALID_PARAMETER_VALUE,
            hint="Available types: TIMESTAMP, BIGINT.",
        )
    return Registration(
        target,
        given["location"],
        parse_key(given["key"]),
        _format(given.get("format")),
        given.get("version_column", VERSION),
        given.get("subsequent_column", SUBSEQUENT),
        version_type and version_type.upper(),
        _columns(given.get("columns", "")),
        given.get("connection"),
    )


def _format(name: str | None) -> str | None:
    return name if name is None or name == TABLE else checked_format(name)


def _columns(text: str) -> str:
    """Return definitions of columns, which are nothing else.

    Raises:
        GatewayError: 42601.
    """
    if text:
        tokens = Tokens(f"({text})")
        tokens.elements()
        tokens.expect_end()
    return text


def _register_files(
    call: Invocation, run: Callable[[str], StatementResult], wanted: Registration
) -> None:
    session = call.session
    directory = allowed(session).directory(wanted.location)
    files = Files(str(directory))
    found: tuple[SourceColumn, ...] = ()
    form = wanted.format
    if allowed(session).existing(str(directory)):
        source = file_source(session, files, form)
        form, load = source.format, FileLoad(session.services.engine, source, call.running)
        with reading(files, form, source.files):
            load.open()
            found = load.columns
            for name in wanted.key:
                _require_column(wanted, found, name)
            contents = load.examine(wanted.key)
        for name in contents.without:
            raise GatewayError(
                f'column "{name}" of the journal contains null values',
                sqlstate=codes.NOT_NULL_VIOLATION,
            )
    if form is None:
        raise GatewayError(
            f'the format of "{wanted.location}", which holds no files, cannot be told',
            sqlstate=codes.INVALID_PARAMETER_VALUE,
            hint=f"Say format => and one of {', '.join(FORMATS)}.",
        )
    if not found and not wanted.columns:
        raise GatewayError(
            f'the columns of "{wanted.location}", which holds no files, cannot be told',
            sqlstate=codes.INVALID_PARAMETER_VALUE,
            hint="Say columns => 'name type, ...', without those of versions.",
        )
    external = ExternalJournal(form, str(directory), wanted.version, wanted.subsequent)
    create(call, run, wanted, external, found)


def _register_relation(
    call: Invocation,
    run: Callable[[str], StatementResult],
    wanted: Registration,
    connection: str,
) -> None:
    if wanted.format is not None:
        raise GatewayError(
            "format is for files, and connection for databases", sqlstate=codes.SYNTAX_ERROR
        )
    (path,) = allowed(call.session).existing(connection)
    tokens = Tokens(wanted.location)
    location = [name for name in tokens.relation() if name is not None]
    tokens.expect_end()
    load = RelationLoad(call.session.services.engine, str(path), location, call.running)
    external = ExternalJournal(
        JDBC, load.open(), wanted.version, wanted.subsequent, connection=str(path)
    )
    for name in wanted.key:
        _require_column(wanted, load.columns, name)
    create(call, run, wanted, external, load.columns)


def _register_table(
    call: Invocation, run: Callable[[str], StatementResult], wanted: Registration
) -> None:
    tokens = Tokens(wanted.location)
    location = [tokens.name()]
    while tokens.accept("."):
        location.append(tokens.name())
    tokens.expect_end()
    load = CatalogTable(call.session.services.engine, location, call.running)
    external = ExternalJournal(TABLE, load.open(), wanted.version, wanted.subsequent)
    for name in wanted.key:
        _require_column(wanted, load.columns, name)
    create(call, run, wanted, external, load.columns)


def create(
    call: Invocation,
    run: Callable[[str], StatementResult],
    wanted: Registration,
    external: ExternalJournal,
    found: Sequence[SourceColumn],
) -> None:
    """Create the table that stands for a journal.

    Args:
        call: The statement.
        run: Runs another statement as part of it.
        wanted: What was said of the journal.
        external: Where it lies; its columns are still to be told.
        found: Its columns, as far as there are any.

    Raises:
        GatewayError: 42703 and 42804 for columns that are missing or of another type,
            PostgreSQL's own errors for the table.
    """
    session, catalog = call.session, call.session.catalog
    typed = found if external.format not in UNTYPED else ()
    if not wanted.is_plain:
        external = replace(external, counts=_counts(wanted, found, typed))
    own = [one for one in found if one.name not in {wanted.version, wanted.subsequent}]
    listed = wanted.columns or ", ".join(
        f"{names.quoted(column.name)} {column.postgres_type}" for column in own
    )
    keyed = ", ".join(map(names.quoted, wanted.key))
    name = names.qualified(wanted.target)
    run(f"CREATE TABLE {name} ({listed}{f', PRIMARY KEY ({keyed})' if keyed else ''})")
    relid = names.relation_oid(catalog, wanted.target)
    resident = catalog.observations.relations([relid])[relid].kind is RelationKind.RESIDENT
    if resident and not begin_new(call, relid, "CALL"):
        raise UnsupportedError(
            f'an external journal for table "{wanted.target.name}", which has to stay resident,'
            " is not supported",
            hint="It has to where code of the database names it.",
        )
    table = Observer(session).observe([relid]).result.snapshots[relid].table
    _require_one_form(session, table)
    if found:
        _require_same(wanted, table, own, typed)
    schema = json.dumps(_schema(table, external, found))
    external_journals.make_external(catalog, relid, replace(external, schema=schema))
    session.transaction.written.add(relid)


def _schema(
    table: JournalTable, external: ExternalJournal, found: Sequence[SourceColumn]
) -> Mapping[str, Any]:
    """Return the columns of the journal in its order, as Spark's JSON of a schema."""
    version = "long" if external.counts else "timestamp"
    kinds: dict[str, Any] = {
        column.name: spark_kind(storage_type(column.type_oid, column.typmod))
        for column in table.columns
    }
    if not external.is_plain:
        kinds |= {external.version: version, external.subsequent: version}
    if external.format not in UNTYPED:
        kinds |= {column.name: column.kind for column in found}
    for name, kind in kinds.items() if external.format == "orc" else ():
        if kind in {"timestamp", "timestamp_ntz"}:
            raise UnsupportedError(
                f'column "{name}" with timestamps in ORC files is not supported',
                hint="Which moments they mean depends on who wrote them. Parquet files tell.",
            )
    for name, kind in kinds.items() if external.format == "csv" else ():
        if kind == "binary" or not isinstance(kind, str):
            raise UnsupportedError(
                f'column "{name}" of bytes or of an array in CSV files is not supported',
                hint="Say text, or keep the journal in Parquet or JSON.",
            )
    order = [column.name for column in found] or list(kinds)
    fields = [
        {"name": name, "type": kinds[name], "nullable": True, "metadata": {}} for name in order
    ]
    return {"type": "struct", "fields": fields}


def _require_one_form(session: ClientSession, table: JournalTable) -> None:
    """Refuse columns whose values we keep as PostgreSQL's own text (0A000).

    They are compared as text, and others may write a value in another form, or one that is none.
    """
    for column in table.columns:
        of = oids.ELEMENTS.get(column.type_oid, column.type_oid)
        if storage_type(of, column.typmod) == "STRING" and of not in _TOLD_AS_TEXT:
            kind = names.type_name(session.catalog, column.type_oid, column.typmod)
            raise UnsupportedError(
                f'column "{column.name}" of type {kind} is not supported in tables of others',
                hint="Say text, and cast it where it is read.",
            )


def _require_same(
    wanted: Registration,
    table: JournalTable,
    own: Sequence[SourceColumn],
    typed: Sequence[SourceColumn],
) -> None:
    """Refuse columns that were said to be there, or to be others, than the journal has."""
    said = [column.name for column in table.columns]
    for name in said:
        _require_column(wanted, own, name)
    for column in own:
        if column.name not in said:
            raise GatewayError(
                f'column "{column.name}" of the journal is not among the columns given',
                sqlstate=codes.UNDEFINED_COLUMN,
            )
    kinds = {column.name: column for column in typed}
    for one in table.columns if wanted.columns else ():
        found = kinds.get(one.name)
        kind = spark_kind(storage_type(one.type_oid, one.typmod))
        if found is not None and found.kind != kind:
            raise GatewayError(
                f'column "{one.name}" of the journal is of type {found.postgres_type}',
                sqlstate=codes.DATATYPE_MISMATCH,
            )


def _counts(
    wanted: Registration,
    found: Sequence[SourceColumn],
    typed: Sequence[SourceColumn],
) -> bool:
    """Tell whether versions are counted, having looked at the columns that hold them."""
    for name in (wanted.version, wanted.subsequent) if found else ():
        _require_column(wanted, found, name)
    said = wanted.version_type or "TIMESTAMP"
    for column in typed:
        if column.name not in {wanted.version, wanted.subsequent}:
            continue
        kind = column.kind if isinstance(column.kind, str) else column.kind["type"]
        is_type = _VERSION_KINDS.get(kind)
        if is_type is None or (wanted.version_type and is_type != said):
            raise GatewayError(
                f'column "{column.name}" of the journal is of type {kind}, not {said}',
                sqlstate=codes.DATATYPE_MISMATCH,
                hint="Version numbers are TIMESTAMP or BIGINT.",
            )
        if column.name == wanted.version:
            said = is_type
    kinds = {c.kind for c in typed if c.name in {wanted.version, wanted.subsequent}}
    if len({_VERSION_KINDS[kind] for kind in kinds}) > 1:
        raise GatewayError(
            f'columns "{wanted.version}" and "{wanted.subsequent}" of the journal'
            " are of different types",
            sqlstate=codes.DATATYPE_MISMATCH,
        )
    return said == "BIGINT"


def _require_column(wanted: Registration, found: Sequence[SourceColumn], name: str) -> None:
    """Refuse the name of a column that the journal does not have (42703)."""
    if all(column.name != name for column in found):
        similar = next((c.name for c in found if c.name.lower() == name.lower()), None)
        hint = similar and f'Perhaps you meant the column "{similar}".'
        if not similar and name in {wanted.version, wanted.subsequent}:
            hint = (
                "Name the columns of versions: version_column, subsequent_column."
                " Tables that are no journals are registered by gateway.register_table."
            )
        raise GatewayError(
            f'column "{name}" does not exist in the journal of "{wanted.target.name}"',
            sqlstate=codes.UNDEFINED_COLUMN,
            hint=hint,
        )
