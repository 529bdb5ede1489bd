"""Split query strings and classify statements with PostgreSQL's own grammar.

The grammar is that of the `postgast` wheel. `catalog.statements.details` says what `details` hold.
"""

import functools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Any, Final, TypeAlias

from postgast.native import lib

from catalog.errors import GatewayError
from catalog.extensions import commits, convert, create_table, merge
from catalog.extensions.merge import StarredMerge
from catalog.pg.sqlstate import SYNTAX_ERROR
from catalog.pg.statement_tokens import tokens_of
from catalog.statements.details import ParsedStatement, details_of
from catalog.statements.refusals import refusal


class StatementKind(Enum):
    """What a statement is to the gateway."""

    SELECT = auto()
    """Also VALUES and TABLE."""
    INSERT = auto()
    UPDATE = auto()
    DELETE = auto()
    MERGE = auto()
    SELECT_INTO = auto()
    CREATE_TABLE_AS = auto()
    COPY = auto()
    TRUNCATE = auto()
    TRANSACTION = auto()
    DECLARE = auto()
    FETCH = auto()
    """FETCH and MOVE."""
    CLOSE = auto()
    SET = auto()
    """SET and RESET."""
    SET_CONSTRAINTS = auto()
    SHOW = auto()
    PREPARE = auto()
    EXECUTE = auto()
    DEALLOCATE = auto()
    DISCARD = auto()
    EXPLAIN = auto()
    LISTEN = auto()
    NOTIFY = auto()
    UNLISTEN = auto()
    LOCK = auto()
    VACUUM = auto()
    """VACUUM and ANALYZE."""
    CALL = auto()
    DO = auto()
    CONVERT = auto()
    """A statement of our own, see `catalog.extensions.convert`."""
    CREATE_TABLE_USING = auto()
    """CREATE TABLE in Spark's form, see `catalog.extensions.create_table`."""
    DEFINITION = auto()
    """DDL, and whatever else PostgreSQL executes as it is."""
    REFUSED = auto()
    """Not offered; `details` has sqlstate, message and hint, and perhaps a position."""
    UNKNOWN = auto()
    """Not parsed: PostgreSQL is to report the syntax error."""


_KINDS: Final = {
    "SelectStmt": StatementKind.SELECT,
    "InsertStmt": StatementKind.INSERT,
    "UpdateStmt": StatementKind.UPDATE,
    "DeleteStmt": StatementKind.DELETE,
    "MergeStmt": StatementKind.MERGE,
    "CreateTableAsStmt": StatementKind.CREATE_TABLE_AS,
    "CopyStmt": StatementKind.COPY,
    "TruncateStmt": StatementKind.TRUNCATE,
    "TransactionStmt": StatementKind.TRANSACTION,
    "DeclareCursorStmt": StatementKind.DECLARE,
    "FetchStmt": StatementKind.FETCH,
    "ClosePortalStmt": StatementKind.CLOSE,
    "VariableSetStmt": StatementKind.SET,
    "ConstraintsSetStmt": StatementKind.SET_CONSTRAINTS,
    "VariableShowStmt": StatementKind.SHOW,
    "PrepareStmt": StatementKind.PREPARE,
    "ExecuteStmt": StatementKind.EXECUTE,
    "DeallocateStmt": StatementKind.DEALLOCATE,
    "DiscardStmt": StatementKind.DISCARD,
    "ExplainStmt": StatementKind.EXPLAIN,
    "ListenStmt": StatementKind.LISTEN,
    "NotifyStmt": StatementKind.NOTIFY,
    "UnlistenStmt": StatementKind.UNLISTEN,
    "LockStmt": StatementKind.LOCK,
    "VacuumStmt": StatementKind.VACUUM,
    "CallStmt": StatementKind.CALL,
    "DoStmt": StatementKind.DO,
}

_DEEP_KINDS: Final = {
    "select": StatementKind.SELECT,
    "values": StatementKind.SELECT,
    "table": StatementKind.SELECT,
    "insert": StatementKind.INSERT,
    "update": StatementKind.UPDATE,
    "delete": StatementKind.DELETE,
    "merge": StatementKind.MERGE,
}
"""First words of statements whose tree may be too deep for Python's JSON decoder."""

SYSTEM_SCHEMAS: Final = frozenset({"pg_catalog", "information_schema"})


@dataclass(frozen=True, slots=True)
class RelationName:
    """A relation as a statement names it."""

    schema: str | None
    name: str


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a query string."""

    text: str
    """Without the separating semicolon, and without blanks and comments before it."""
    offset: int
    """Characters before it in the query string."""
    kind: StatementKind
    relations: tuple[RelationName, ...] = ()
    """Every relation named in it, CTE names and what DROP names excluded."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """What the gateway needs of this kind; see the function of that kind in `statement_details`."""
    parameter_count: int = 0
    """Largest n of the `$n` that occur."""
    relations_known: bool = True
    """False when the statement could not be looked into; then anything may be in it."""
    looked_up: tuple[RelationName, ...] = ()
    """Names that were looked up to get to this text, beside those in it."""
    is_translated: bool = False
    """Whether this is what a command of ours stands for, and the query string has another text."""

    @property
    def all_qualified_system(self) -> bool:
        """True when every relation is qualified as a system one: no tree is needed."""
        return self.relations_known and all(r.schema in SYSTEM_SCHEMAS for r in self.relations)


class _UnparsedError(Exception):
    """The query string has a syntax error."""


def split(query_string: str) -> list[Statement]:
    """Return the statements of a query string; one UNKNOWN statement when it does not parse."""
    if len(query_string) > 20_000:
        return list(_split(query_string))
    return list(_split_cached(query_string))


def _split(query_string: str) -> tuple[Statement, ...]:
    encoded = query_string.encode("utf-8", "surrogateescape")
    if b"\0" in encoded:
        return (_unknown(query_string),)
    try:
        entries = _parse(encoded)
    except _UnparsedError:
        return _split_extended(query_string, encoded)
    except RecursionError:
        return _split_deep(query_string, encoded)
    ends = [_end(entry, encoded) for entry in entries]
    return tuple(
        _translated(_statement(entry["stmt"], encoded, entry.get("stmt_location", 0), end))
        for entry, end in zip(entries, ends, strict=True)
    )


def _translated(statement: Statement) -> Statement:
    """Return what a statement stands for that PostgreSQL parses, and has no such thing; else it."""
    if statement.kind is StatementKind.SHOW and commits.is_list(statement.details["name"]):
        return _own_statement(statement.text, statement.offset) or statement
    if statement.kind is StatementKind.CALL and commits.is_procedure(statement.text):
        return _own_statement(statement.text, statement.offset) or statement
    return statement


def _standing_for(offset: int, text: str) -> Statement:
    return replace(_split_cached(text)[0], offset=offset, is_translated=True)


_split_cached = functools.lru_cache(maxsize=4096)(_split)


def _split_extended(query_string: str, encoded: bytes) -> tuple[Statement, ...]:
    """Split what PostgreSQL's grammar does not know as a whole, for statements of our own in it.

    What else does not parse is PostgreSQL's to report, and nothing of the string is run.
    """
    statements: list[Statement] = []
    extended = False
    for start, end in _between_semicolons(encoded):
        own = _own_between(encoded, start, end)
        extended = extended or own is not None
        if own is None:
            try:
                # Locations in the tree count from the beginning of the query string.
                entries = _parse(b" " * start + encoded[start:end])
            except (_UnparsedError, RecursionError):
                return (_unknown(query_string),)
            if entries:
                own = _statement(entries[0]["stmt"], encoded, start, end)
        if own is not None and own.kind is StatementKind.REFUSED:
            return (own,)
        statements += [own] if own is not None else []
    return tuple(statements) if extended else (_unknown(query_string),)


def _between_semicolons(encoded: bytes) -> Iterator[tuple[int, int]]:
    start = 0
    for token in tokens_of(encoded):
        if token.text == ";" and token.depth == 0:
            yield start, token.start
            start = token.end
    yield start, len(encoded)


def _own_between(encoded: bytes, start: int, end: int) -> Statement | None:
    tokens = tokens_of(encoded[start:end])
    if not tokens:
        return None
    first = start + tokens[0].start
    text, offset = _decode(encoded[first:end]).rstrip(), len(_decode(encoded[:first]))
    return _own_statement(text, offset)


def _own_statement(text: str, offset: int) -> Statement | None:
    """Return a statement of our own, REFUSED where it has an error; None for any other."""
    try:
        conversion = convert.parse(text)
        table = None if conversion else create_table.parse(text)
        starred = None if conversion or table else merge.parse(text)
        other = None if conversion or table or starred else commits.parse(text)
    except GatewayError as error:
        details = {
            "sqlstate": error.sqlstate,
            "message": error.message,
            "hint": error.hint,
            "position": error.position,
        }
        return Statement(text, offset, StatementKind.REFUSED, details=details)
    if conversion is not None:
        return Statement(text, offset, StatementKind.CONVERT, details={"convert": conversion})
    if table is not None:
        return Statement(text, offset, StatementKind.CREATE_TABLE_USING, details={"table": table})
    if starred is not None:
        return _starred(starred, offset)
    return None if other is None else _standing_for(offset, other)


_WITH_MERGE: Final = {
    StatementKind.MERGE,
    StatementKind.EXPLAIN,
    StatementKind.PREPARE,
    StatementKind.SELECT,
    StatementKind.INSERT,
    StatementKind.UPDATE,
    StatementKind.DELETE,
}


def _starred(merge: StarredMerge, offset: int) -> Statement | None:
    """Return a MERGE whose columns are to be named; None where the rest is not PostgreSQL's."""
    (alike,) = _split_cached(merge.with_columns([()] * len(merge.parts)).text)
    if alike.kind not in _WITH_MERGE:
        return None
    details = {**alike.details, "stars": merge}
    return replace(alike, text=merge.text, offset=offset, details=details)


def _unknown(query_string: str) -> Statement:
    return Statement(query_string, 0, StatementKind.UNKNOWN, relations_known=False)


def _parse(encoded: bytes) -> list[dict[str, Any]]:
    result = lib.pg_query_parse(encoded)
    try:
        if result.error:
            raise _UnparsedError
        statements: list[dict[str, Any]] = json.loads(result.parse_tree).get("stmts", [])
        return [s for s in statements if s.get("stmt")]
    finally:
        lib.pg_query_free_parse_result(result)


def parse_tree(text: str) -> list[dict[str, Any]]:
    """Return the raw trees of a text's statements, in libpg_query's JSON; none for an error."""
    try:
        return [entry["stmt"] for entry in _parse(text.encode("utf-8", "surrogateescape"))]
    except (_UnparsedError, RecursionError):
        return []


def _end(entry: dict[str, Any], encoded: bytes) -> int:
    start: int = entry.get("stmt_location", 0)
    length: int = entry.get("stmt_len", 0)
    return start + length if length else len(encoded)


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _statement(node: dict[str, Any], encoded: bytes, start: int, end: int) -> Statement:
    body = encoded[start:end]
    stripped = body.lstrip()
    start += len(body) - len(stripped)
    text = _decode(stripped).rstrip()
    offset = len(_decode(encoded[:start]))
    ((tag, fields),) = node.items()
    relations, parameter_count = _look_into(node)
    kind = _KINDS.get(tag, StatementKind.DEFINITION)
    if tag == "SelectStmt" and _into(fields) is not None:
        kind = StatementKind.SELECT_INTO
    refused = refusal(tag, fields)
    if refused is not None:
        return Statement(text, offset, StatementKind.REFUSED, relations, refused, parameter_count)
    details = details_of(tag, ParsedStatement(fields, text, start))
    plain = Statement(text, offset, kind, relations, details, parameter_count)
    return _in_sparks_form(plain, fields) or plain


def _in_sparks_form(plain: Statement, fields: dict[str, Any]) -> Statement | None:
    """Return CREATE TABLE with a format of Spark's as its access method; None for all else.

    The statement is PostgreSQL's where it has an access method of that name.
    """
    method = fields.get("accessMethod") or (fields.get("into") or {}).get("accessMethod")
    if method not in create_table.FORMATS:
        return None
    own = _own_statement(plain.text, plain.offset)
    if own is None or own.details.get("sqlstate") == SYNTAX_ERROR:
        return None
    return replace(own, details={**own.details, "plain": plain})


def _into(fields: dict[str, Any]) -> dict[str, Any] | None:
    while "larg" in fields:
        fields = fields["larg"]
    return fields.get("intoClause")


def _look_into(node: dict[str, Any]) -> tuple[tuple[RelationName, ...], int]:
    """Return the relations a statement names and its largest parameter number."""
    relations: dict[RelationName, None] = {}
    largest = 0
    for tag, fields, expressions in _nodes(node):
        if "relpersistence" in fields and "relname" in fields:
            schema, name = fields.get("schemaname"), fields["relname"]
            # Only FROM looks for them; what is written is never one.
            if tag != "RangeVar" or schema is not None or name not in expressions:
                relations[RelationName(schema, name)] = None
        elif tag == "ParamRef":
            largest = max(largest, fields.get("number", 0))
    return tuple(relations), largest


_Names: TypeAlias = frozenset[str]


def _nodes(root: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], _Names]]:
    """Return every node with the name of its tag or field, and the CTEs that can be named there."""
    stack: list[tuple[str, Any, _Names]] = [("", root, frozenset())]
    while stack:
        tag, value, visible = stack.pop()
        if isinstance(value, dict):
            yield tag, value, visible
            if "withClause" in value:
                visible = _push_expressions(stack, value["withClause"], visible)
            # FOR UPDATE OF names what FROM has named.
            stack.extend(
                (k, v, visible) for k, v in value.items() if k not in {"lockedRels", "withClause"}
            )
        elif isinstance(value, list):
            stack.extend((tag, item, visible) for item in value)


def _push_expressions(
    stack: list[tuple[str, Any, _Names]], clause: dict[str, Any], visible: _Names
) -> _Names:
    """Visit the CTEs of a WITH clause; return what can be named beside it."""
    expressions = [entry["CommonTableExpr"] for entry in clause.get("ctes", ())]
    after = visible | {expression["ctename"] for expression in expressions}
    for expression in expressions:
        stack.append(("CommonTableExpr", expression, after if "recursive" in clause else visible))
        # A name before this one; without RECURSIVE its own means a relation.
        visible |= {expression["ctename"]}
    return after


def _split_deep(query_string: str, encoded: bytes) -> tuple[Statement, ...]:
    """Classify by the first word where the tree is too deep to be looked into."""
    result = lib.pg_query_split_with_parser(encoded)
    try:
        if result.error:
            return (_unknown(query_string),)
        parts = [
            (part.stmt_location, part.stmt_location + part.stmt_len)
            for part in (result.stmts[i].contents for i in range(result.n_stmts))
        ]
    finally:
        lib.pg_query_free_split_result(result)
    statements = []
    for start, end in parts:
        try:
            (entry,) = _parse(encoded[start:end])
        except RecursionError:
            tokens = tokens_of(encoded[start:end])
            word = tokens[0].text.lower() if tokens else ""
            body = encoded[start:end]
            lead = len(body) - len(body.lstrip())
            statements.append(
                Statement(
                    _decode(body).strip(),
                    len(_decode(encoded[: start + lead])),
                    _DEEP_KINDS.get(word, StatementKind.UNKNOWN),
                    parameter_count=max((t.parameter for t in tokens), default=0),
                    relations_known=False,
                )
            )
        else:
            statements.append(_statement(entry["stmt"], encoded, start, end))
    return tuple(statements)
