"""Commands about commits, in the forms that users of data lakes know, as statements over ours.

    commits show (table = 's.t', limit = 10)
    commit rollback (commit = '20261123001206344175')
    savepoint create (table = 's.t', commit = '20261123001206344175')
    CALL show_commits(table => 's.t', limit => 10)

Commands take parameters by name, procedures by name or in order; the names are those of Hudi's
commands and procedures. Where a table is not given, it is that of the setting ``gateway.table``,
else all that have to do with the commit.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from catalog.errors import GatewayError
from catalog.extensions.grammar import Tokens, is_string
from catalog.pg.sqlstate import (
    FEATURE_NOT_SUPPORTED,
    INVALID_NAME,
    INVALID_PARAMETER_VALUE,
    UNDEFINED_OBJECT,
)

Value = str | int | bool
Given = Mapping[str, Value]

DEFAULT_LIMIT: Final = 10
ALL_COMMITS: Final = 9223372036854775807


@dataclass(frozen=True, slots=True)
class Command:
    """What a command is given, and the statement that does it."""

    parameters: tuple[tuple[str, type], ...]
    """Names with the types of their values, in the order of a procedure's."""
    statement: Callable[[Given], str]
    required: tuple[str, ...] = ()


def parse(text: str) -> str | None:
    """Return the statement that a command stands for; None for any other statement.

    Raises:
        GatewayError: 42601 for what is wrong with it, 42704 for a parameter that it has not, 22023
            for a value that is none or is missing, 0A000 for commands that mean nothing here.
    """
    tokens = Tokens(text)
    if tokens.accept("call"):
        return _procedure(tokens)
    for word in ("set", "reset", "show"):
        if tokens.accept(word, "gateway", ".", "table"):
            return _setting(tokens, word)
    words = next((words for words in _BY_LENGTH if tokens.accept(*_parts(words))), None)
    if words is None:
        return None
    found = COMMANDS[words]
    if isinstance(found, str):
        raise _refused(words, found)
    given = _named(tokens, "=", dict(found.parameters)) if tokens.sees("(") else {}
    tokens.expect_end()
    return _statement(words, found, given)


def _setting(tokens: Tokens, word: str) -> str:
    """Return a statement about ``gateway.table``, whose name is a reserved word."""
    if word != "set":
        tokens.expect_end()
        return f'{word.upper()} gateway."table"'
    if not tokens.accept("to"):
        tokens.expect("=")
    if tokens.accept("default"):
        tokens.expect_end()
        return 'RESET gateway."table"'
    value = tokens.string()
    tokens.expect_end()
    return f'SET gateway."table" = {literal(value)}'


def _procedure(tokens: Tokens) -> str | None:
    if tokens.accept("gateway"):
        tokens.expect(".")
    token = tokens.current
    name = token.text.lower() if token is not None else ""
    found = PROCEDURES.get(name)
    if found is None:
        return None
    tokens.advance()
    if isinstance(found, str):
        raise _refused(f"CALL {name}", found)
    given = _named(tokens, "=>", dict(found.parameters), tuple(n for n, _ in found.parameters))
    tokens.expect_end()
    return _statement(f"CALL {name}", found, given)


def _statement(words: str, command: Command, given: Given) -> str:
    for name in command.required:
        if name not in given:
            raise GatewayError(
                f'"{words}" needs the parameter "{name}"', sqlstate=INVALID_PARAMETER_VALUE
            )
    return command.statement(given)


def _named(
    tokens: Tokens, sign: str, known: Mapping[str, type], ordered: tuple[str, ...] = ()
) -> Given:
    """Take parameters in parentheses."""
    given: dict[str, Value] = {}
    tokens.expect("(")
    while not tokens.accept(")"):
        if given:
            tokens.expect(",")
        token = tokens.current
        name = token.text.lower() if token is not None else ""
        place = tokens.place
        if token is not None and not is_string(token) and not name.isdigit():
            tokens.advance()
            tokens.expect(sign)
        elif len(given) < len(ordered):
            name = ordered[len(given)]
        else:
            tokens.fail()
        if name not in known:
            raise GatewayError(
                f'unrecognized parameter "{name}"',
                sqlstate=UNDEFINED_OBJECT,
                hint=f"Parameters: {', '.join(known)}." if known else "It has none.",
                position=place,
            )
        given[name] = _value(tokens, name, known[name])
    return given


def _value(tokens: Tokens, name: str, kind: type) -> Value:
    token, place = tokens.current, tokens.place
    if token is None:
        tokens.fail()
    if is_string(token):
        text: str = tokens.string()
    elif token.text.isdigit() or token.text.lower() in {"true", "false"}:
        text = tokens.advance().text.lower()
    else:
        tokens.fail()
    if kind is int and text.isdigit() and len(text) < 10:
        return int(text)
    if kind is bool and text in {"true", "false"}:
        return text == "true"
    if kind is str:
        return text
    raise GatewayError(
        f'invalid value for parameter "{name}": "{text}"',
        sqlstate=INVALID_PARAMETER_VALUE,
        position=place,
    )


def _refused(words: str, reason: str) -> GatewayError:
    return GatewayError(f'"{words}" is not supported: {reason}', sqlstate=FEATURE_NOT_SUPPORTED)


# statements -------------------------------------------------------------------------------------


def literal(value: Value | None) -> str:
    """Return a constant as SQL.

    >>> literal("it's"), literal(3), literal(None)
    ("'it''s'", '3', 'NULL')
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"


_SETTING: Final = "NULLIF(pg_catalog.current_setting('gateway.table', true), '')"
"""The table that is meant where none is given."""


def _tables(name: str) -> str:
    """Return the OIDs of the table that an expression names, and of its partitions."""
    return (
        f"SELECT {name}::pg_catalog.regclass::pg_catalog.oid UNION ALL SELECT p.relid"  # noqa: S608
        f" FROM pg_catalog.pg_partition_tree({name}::pg_catalog.regclass) AS p"
    )


def _is_table(name: str) -> str:
    """Return the condition that a row of a list is of the table that an expression names.

    That of a partitioned table are those of its partitions.
    """
    # The names of the others may be in schemas that the role may not use.
    return (
        "(x.schema_name, x.table_name) OPERATOR(pg_catalog.=) ANY (SELECT n.nspname, c.relname"  # noqa: S608
        " FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n"
        " ON n.oid OPERATOR(pg_catalog.=) c.relnamespace"
        f" WHERE c.oid OPERATOR(pg_catalog.=) ANY ({_tables(name)}))"
    )


def _of_table(given: Given) -> str:
    """Return the condition on the rows of a list."""
    if "table" in given:
        return _is_table(literal(given["table"]))
    return f"({_SETTING} IS NULL OR {_is_table(_SETTING)})"


def _commits(given: Given, commit: Value | None = None) -> str:
    """Return what FROM lists the newest commits by, or those of one name.

    The view has all commits there are, and would look at each.
    """
    if "table" in given:
        tables = f"ARRAY({_tables(literal(given['table']))})"
    else:
        tables = f"CASE WHEN {_SETTING} IS NOT NULL THEN ARRAY({_tables(_SETTING)}) END"
    limit = ALL_COMMITS if commit is not None else given.get("limit", DEFAULT_LIMIT)
    return f"pg_journal.listed_commits({tables}, {literal(commit)}, {literal(limit)}) AS x"


def _show_commits(given: Given) -> str:
    """Return the query of the newest commits."""
    return (
        "SELECT x.commit AS commit_time, x.schema_name, x.table_name, x.row_versions AS"  # noqa: S608
        " total_records_written, x.rows_ended AS total_records_deleted, x.committed_at"
        f" FROM {_commits(given)} ORDER BY x.committed_at DESC"
        f" LIMIT {literal(given.get('limit', DEFAULT_LIMIT))}"
    )


def _list(columns: str, view: str, order: str, *equal: tuple[str, str]) -> Callable[[Given], str]:
    """Return what makes the query of a list, with conditions on columns by parameters."""

    def statement(given: Given) -> str:
        conditions = [_of_table(given)] + [
            f"x.{column} OPERATOR(pg_catalog.=) {literal(given[name])}"
            for column, name in equal
            if name in given
        ]
        limit = given.get("limit", DEFAULT_LIMIT)
        return (
            f"SELECT {columns} FROM gateway.{view} AS x WHERE {' AND '.join(conditions)}"  # noqa: S608
            f" ORDER BY {order} LIMIT {literal(limit)}"
        )

    return statement


def _file_sizes(given: Given) -> str:
    """Return the query of how large the files are that commits wrote."""
    shares = ", ".join(
        f"pg_catalog.percentile_cont({share}) WITHIN GROUP (ORDER BY x.size_bytes) AS {name}"
        for share, name in ((0.1, "p10"), (0.5, "p50"), (0.95, "p95"))
    )
    return (
        "SELECT x.commit AS commit_time, x.schema_name, x.table_name,"  # noqa: S608
        f" pg_catalog.min(x.size_bytes) AS min, {shares}, pg_catalog.max(x.size_bytes) AS max,"
        " pg_catalog.count(*) AS num_segments FROM gateway.commit_files AS x"
        f" WHERE {_of_table(given)} GROUP BY 1, 2, 3 ORDER BY 1 DESC"
        f" LIMIT {literal(given.get('limit', DEFAULT_LIMIT))}"
    )


def _amplification(given: Given) -> str:
    """Return the query of how often row versions of tables were written."""
    limit = literal(given.get("limit", DEFAULT_LIMIT))
    return (
        "SELECT x.schema_name, x.table_name, x.row_versions AS total_upserted,"  # noqa: S608
        " x.rows_written AS total_written,"
        " pg_catalog.round(x.rows_written OPERATOR(pg_catalog./) NULLIF(x.row_versions, 0), 2)"
        " AS write_amplification_factor FROM gateway.write_amplification AS x"
        f" WHERE {_of_table(given)} ORDER BY 1, 2 LIMIT {limit}"
    )


def _partitions(given: Given) -> str:
    """Return the query of which tables, and partitions of which, a commit has changed."""
    commit = given.get("commit", given.get("commit_time"))
    return (
        "SELECT x.schema_name, x.table_name,"  # noqa: S608
        " pg_catalog.pg_get_expr(c.relpartbound, c.oid) AS partition_bound,"
        " x.row_versions AS total_records_written, x.rows_ended AS total_records_deleted"
        f" FROM {_commits(given, commit)} JOIN pg_catalog.pg_namespace AS n"
        " ON n.nspname OPERATOR(pg_catalog.=) x.schema_name"
        " JOIN pg_catalog.pg_class AS c ON c.relnamespace OPERATOR(pg_catalog.=) n.oid"
        " AND c.relname OPERATOR(pg_catalog.=) x.table_name"
        f" ORDER BY 1, 2 LIMIT {literal(given.get('limit', DEFAULT_LIMIT))}"
    )


def _compared(given: Given) -> str:
    """Return the query of the commits that have changed one of two tables alone."""
    one, other = _is_table(literal(given["table"])), _is_table(literal(given["path"]))
    return (
        "SELECT x.commit AS commit_time, pg_catalog.min(x.schema_name) AS schema_name,"  # noqa: S608
        " pg_catalog.min(x.table_name) AS table_name FROM gateway.commits AS x"
        f" WHERE {one} OR {other} GROUP BY x.commit"
        f" HAVING pg_catalog.bool_or({one}) OPERATOR(pg_catalog.<>) pg_catalog.bool_or({other})"
        f" ORDER BY x.commit DESC LIMIT {literal(given.get('limit', DEFAULT_LIMIT))}"
    )


def _call(function: str, *names: str) -> Callable[[Given], str]:
    """Return what makes the call of a function of the gateway."""

    def statement(given: Given) -> str:
        arguments = [literal(given.get(name)) for name in names]
        while arguments and arguments[-1] == "NULL":
            arguments.pop()
        return f"SELECT gateway.{function}({', '.join(arguments)})"

    return statement


def _vacuum(given: Given) -> str:
    """Return the statement that compacts a table, or all."""
    if "op" in given and given["op"] not in {"run", "execute", "scheduleandexecute"}:
        raise GatewayError(
            f'invalid value for parameter "op": "{given["op"]}"',
            sqlstate=INVALID_PARAMETER_VALUE,
            hint="The only one is run: what there is to do is done at once.",
        )
    if "table" not in given:
        return "VACUUM"
    try:
        tokens = Tokens(str(given["table"]))
        schema, name = tokens.relation()
        tokens.expect_end()
    except GatewayError as error:
        raise GatewayError("invalid name syntax", sqlstate=INVALID_NAME) from error
    return "VACUUM " + ".".join(
        '"' + part.replace('"', '""') + '"' for part in (schema, name) if part is not None
    )


_WHERE: Final = ("table", str)
_LIMIT: Final = ("limit", int)
_LIMITED: Final = (_WHERE, _LIMIT)
_COMMIT: Final = ("commit", str)

_SHOW_SAVEPOINTS: Final = _list(
    "x.savepoint AS savepoint_time, x.schema_name, x.table_name, x.created_at, x.created_by",
    "savepoints",
    "x.savepoint DESC",
)
_SHOW_ROLLBACKS: Final = _list(
    "x.commit AS instant, x.rolled_back_to AS rollback_instant, x.schema_name, x.table_name,"
    " x.row_versions AS total_records, x.rolled_back_by",
    "rollbacks",
    "x.commit DESC NULLS FIRST",
    ("commit", "instant"),
    ("commit", "instant_time"),
)
_SHOW_FILES: Final = _list(
    "x.schema_name, x.table_name, x.kind, x.path AS file_path, x.row_versions AS"
    " total_records_written, x.size_bytes AS file_size, x.is_retired",
    "commit_files",
    "x.path",
    ("commit", "commit"),
    ("commit", "commit_time"),
)
_SHOW_COMPACTIONS: Final = _list(
    "x.schema_name, x.table_name, x.work, x.phase, x.last_compacted, x.failures, x.last_failure",
    "maintenance",
    "x.schema_name, x.table_name",
)
_SHOW_FLUSHES: Final = _list(
    "x.schema_name, x.table_name, x.tail_rows, x.last_flushed, x.last_compacted, x.last_cooled",
    "maintenance",
    "x.schema_name, x.table_name",
)

_NO_PLANS: Final = "compactions and clusterings are not planned before they run"
_NO_METADATA: Final = "the catalog lists the files, there is no table of metadata"

COMMANDS: Final[Mapping[str, Command | str]] = {
    "commits show": Command(_LIMITED, _show_commits),
    "commits compare": Command((_WHERE, ("path", str), _LIMIT), _compared, ("table", "path")),
    "commit showpartitions": Command((_COMMIT, _LIMIT, _WHERE), _partitions, ("commit",)),
    "commit showfiles": Command((_COMMIT, _LIMIT, _WHERE), _SHOW_FILES, ("commit",)),
    "commit rollback": Command(
        (_COMMIT, _WHERE, ("cascade", bool)),
        _call("rollback_commit", "commit", "table", "cascade"),
        ("commit",),
    ),
    "show rollbacks": Command(_LIMITED, _SHOW_ROLLBACKS),
    "show rollback": Command((("instant", str), *_LIMITED), _SHOW_ROLLBACKS, ("instant",)),
    "savepoint create": Command(
        (_COMMIT, _WHERE), _call("create_savepoint", "table", "commit"), ("commit",)
    ),
    "savepoints show": Command(_LIMITED, _SHOW_SAVEPOINTS),
    "savepoint rollback": Command(
        (("savepoint", str), _WHERE),
        _call("rollback_to_savepoint", "table", "savepoint"),
        ("savepoint",),
    ),
    "savepoint delete": Command(
        (("savepoint", str), _WHERE),
        _call("delete_savepoint", "table", "savepoint"),
        ("savepoint",),
    ),
    "compactions show all": Command(_LIMITED, _SHOW_COMPACTIONS),
    "compaction schedule": _NO_PLANS,
    "compaction run": Command((_WHERE,), _vacuum),
    "clustering schedule": _NO_PLANS,
    "clustering run": Command((_WHERE,), _vacuum),
    "cleans show": Command(_LIMITED, _SHOW_FLUSHES),
    "cleans run": Command((_WHERE,), _vacuum),
    "stats wa": Command(_LIMITED, _amplification),
    "stats filesizes": Command(_LIMITED, _file_sizes),
    "metadata": _NO_METADATA,
    "repair deduplicate": "keys are enforced, so there are no duplicates",
    "table recover-configs": "the catalog has what tables are configured by",
}
"""Commands by their words; for those that mean nothing here, why."""


def _parts(words: str) -> list[str]:
    """Return words as tokens."""
    return words.replace("-", " - ").split()


_BY_LENGTH: Final = sorted(COMMANDS, key=lambda words: len(words.split()), reverse=True)

_INSTANT: Final = ("instant_time", str)
_OP: Final = ("op", str)

PROCEDURES: Final[Mapping[str, Command | str]] = {
    "show_commits": Command(_LIMITED, _show_commits),
    "show_commits_metadata": _NO_METADATA,
    "show_commit_files": Command(
        (_WHERE, ("commit_time", str), _LIMIT), _SHOW_FILES, ("commit_time",)
    ),
    "show_commit_partitions": Command(
        (_WHERE, ("commit_time", str), _LIMIT), _partitions, ("commit_time",)
    ),
    "commits_compare": Command((_WHERE, ("path", str)), _compared, ("table", "path")),
    "rollback_to_instant": Command(
        (_WHERE, _INSTANT),
        _call("rollback_to_savepoint", "table", "instant_time"),
        ("table", "instant_time"),
    ),
    "rollback_commit": Command(
        (_WHERE, _INSTANT, ("cascade", bool)),
        _call("rollback_commit", "instant_time", "table", "cascade"),
        ("instant_time",),
    ),
    "show_rollbacks": Command(_LIMITED, _SHOW_ROLLBACKS),
    "show_rollback_detail": Command((_WHERE, _INSTANT), _SHOW_ROLLBACKS, ("instant_time",)),
    "create_savepoint": Command(
        (_WHERE, ("commit_time", str)),
        _call("create_savepoint", "table", "commit_time"),
        ("commit_time",),
    ),
    "show_savepoints": Command(_LIMITED, _SHOW_SAVEPOINTS),
    "rollback_to_savepoint": Command(
        (_WHERE, _INSTANT),
        _call("rollback_to_savepoint", "table", "instant_time"),
        ("instant_time",),
    ),
    "delete_savepoint": Command(
        (_WHERE, _INSTANT), _call("delete_savepoint", "table", "instant_time"), ("instant_time",)
    ),
    "show_compaction": Command(_LIMITED, _SHOW_COMPACTIONS),
    "run_compaction": Command((_OP, _WHERE), _vacuum),
    "run_clustering": Command((_WHERE, _OP), _vacuum),
    "run_clean": Command((_WHERE,), _vacuum),
    "stats_wa": Command(_LIMITED, _amplification),
    "stats_file_sizes": Command(_LIMITED, _file_sizes),
    "repair_deduplicate": "keys are enforced, so there are no duplicates",
}
"""Procedures of the same, in their form."""


def is_list(setting: str) -> bool:
    """Tell whether SHOW of this name, which PostgreSQL has no setting of, is a list of ours."""
    return f"show {setting}" in COMMANDS


def is_procedure(call: str) -> bool:
    """Tell whether a CALL is of a procedure of ours: by its schema, or by a parameter's name.

    >>> is_procedure("CALL gateway.show_commits('t')"), is_procedure("CALL show_commits('t')")
    (True, False)
    >>> is_procedure("CALL rollback_commit(instant_time => '1')")
    True
    """
    tokens = Tokens(call)
    if not tokens.accept("call"):
        return False
    is_ours = tokens.accept("gateway", ".")
    token = tokens.current
    name = "" if token is None else token.text.lower()
    found = PROCEDURES.get(name)
    if is_ours or not isinstance(found, Command):
        return is_ours and found is not None
    return any(tokens.sees(name, "(", parameter, "=>") for parameter, _ in found.parameters)
