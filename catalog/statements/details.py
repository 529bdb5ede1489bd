"""What the gateway needs to know of statements that are not simply queries.

One function per kind of statement, from the fields of PostgreSQL's raw parse tree (and the text,
for statements inside statements) to a plain mapping. Relation names are pairs (schema or None,
name); inner statements are :class:`Piece` values.
"""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from catalog.pg.statement_tokens import (
    Piece,
    ScannedToken,
    after_word,
    parenthesized,
    piece,
    tokens_of,
)
from catalog.statements import call_arguments, procedure_calls
from catalog.statements.call_arguments import Argument, Computed

ALL_ROWS: Final = 9223372036854775807
"""FETCH_ALL of PostgreSQL's parsenodes.h."""

Fields = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ParsedStatement:
    """A statement as PostgreSQL's grammar sees it."""

    fields: Fields
    """Fields of its node, without zeros and empty lists."""
    text: str
    start: int
    """Byte offset of `text` in the query string, which locations count from."""

    @property
    def encoded(self) -> bytes:
        """The text as locations and tokens count it."""
        return self.text.encode("utf-8", "surrogateescape")


def details_of(tag: str, statement: ParsedStatement) -> Mapping[str, Any]:
    """Return the details of a statement with a parse node of this name."""
    function = _FUNCTIONS.get(tag)
    return function(statement) if function is not None else {}


def _relation(fields: Fields) -> tuple[str | None, str]:
    return fields.get("schemaname"), fields["relname"]


def _literal(node: Any) -> Any:  # noqa: PLR0911 — one for each kind of node
    """Return the value of a constant, a name, or a list of them, as an option's argument has it."""
    if node is None:
        return None
    ((tag, value),) = node.items()
    match tag:
        case "A_Const":
            if value.get("isnull"):
                return None
            kind = next(k for k in value if k != "location")
            return _scalar(kind, value[kind])
        case "String" | "Float" | "Integer" | "Boolean" | "BitString":
            return _scalar(_KINDS[tag], value)
        case "List":
            return tuple(_literal(item) for item in value.get("items", ()))
        case "TypeName":
            return ".".join(_literal(name) for name in value["names"])
        case "TypeCast":
            return _literal(value["arg"])
        case _:
            return None


_KINDS: Final = {
    "String": "sval",
    "Float": "fval",
    "Integer": "ival",
    "Boolean": "boolval",
    "BitString": "bsval",
}
"""Fields of nodes that stand for themselves; they lack it where it is empty, zero or false."""


def _scalar(kind: str, value: Fields) -> Any:
    for name, default in (("sval", ""), ("fval", "0"), ("boolval", False), ("bsval", "")):
        if kind == name or name in value:
            return value.get(name, default)
    return value.get("ival", 0)


def _options(fields: Fields, place: str = "options") -> dict[str, Any]:
    """Return DefElem options by lower-case name; True for those without argument."""
    options = {}
    for entry in fields.get(place, ()):
        element = entry["DefElem"]
        options[element["defname"].lower()] = _literal(element["arg"]) if "arg" in element else True
    return options


def _is_on(value: Any) -> bool:
    """Return what PostgreSQL takes an option's argument for, which is one of the known words."""
    return str(value).lower() in {"true", "on", "1"}


def transaction(statement: ParsedStatement) -> Mapping[str, Any]:
    """`action`, `name` of a savepoint, `chain`, `options`.

    Actions: begin, start, commit, rollback, savepoint, release, rollback_to.
    """
    fields = statement.fields
    return {
        "action": fields["kind"].removeprefix("TRANS_STMT_").lower(),
        "name": fields.get("savepoint_name"),
        "chain": fields.get("chain", False),
        "options": _options(fields),
    }


def copy(statement: ParsedStatement) -> Mapping[str, Any]:
    """`relation`, `columns`, `query`, `is_from`, `is_program`, `filename`, `options`, `where`.

    `filename` is None for STDIN and STDOUT.
    """
    fields = statement.fields
    return {
        "relation": _relation(fields["relation"]) if "relation" in fields else None,
        "columns": tuple(_literal(c) for c in fields.get("attlist", ())),
        "query": parenthesized(statement.text) if "query" in fields else None,
        "is_from": fields.get("is_from", False),
        "is_program": fields.get("is_program", False),
        "filename": fields.get("filename"),
        "options": _options(fields),
        "where": "whereClause" in fields,
    }


def declare(statement: ParsedStatement) -> Mapping[str, Any]:
    """`name`, `query`, and the flags `binary`, `scroll`, `no_scroll`, `insensitive`, `hold`."""
    fields = statement.fields
    bits = fields.get("options", 0)
    return {
        "name": fields["portalname"],
        "query": after_word(statement.text, "for"),
        "binary": bool(bits & 0x01),
        "scroll": bool(bits & 0x02),
        "no_scroll": bool(bits & 0x04),
        "insensitive": bool(bits & 0x08),
        "hold": bool(bits & 0x20),
    }


def fetch(statement: ParsedStatement) -> Mapping[str, Any]:
    """`name`, `direction` (as in FETCH), `count` (None: all), `is_move`."""
    fields = statement.fields
    count = int(fields.get("howMany", 0))
    return {
        "name": fields["portalname"],
        "direction": fields["direction"].removeprefix("FETCH_").lower(),
        "count": None if count == ALL_ROWS else count,
        "is_move": fields.get("ismove", False),
    }


def close(statement: ParsedStatement) -> Mapping[str, Any]:
    """`name`, None for CLOSE ALL."""
    fields = statement.fields
    return {"name": fields.get("portalname")}


def set_(statement: ParsedStatement) -> Mapping[str, Any]:
    """`action` (set, default, current, multi, reset, reset_all), `name`, `values`, `is_local`."""
    fields = statement.fields
    action = fields["kind"].removeprefix("VAR_").removeprefix("SET_").lower()
    return {
        "action": "set" if action == "value" else action,
        "name": fields.get("name"),
        "values": tuple(_literal(a) for a in fields.get("args", ()) if "DefElem" not in a),
        "options": _options({"options": [a for a in fields.get("args", ()) if "DefElem" in a]}),
        "is_local": fields.get("is_local", False),
    }


def show(statement: ParsedStatement) -> Mapping[str, Any]:
    """`name`, "all" for SHOW ALL."""
    fields = statement.fields
    return {"name": fields["name"]}


def prepare(statement: ParsedStatement) -> Mapping[str, Any]:
    """`name`, `query`, `types` (their text, one string for each)."""
    fields = statement.fields
    encoded = statement.encoded
    types: list[str] = []
    if fields.get("argtypes"):
        tokens = tokens_of(encoded)
        types = [p.text for p in _arguments(encoded, tokens)]
    return {
        "name": fields["name"],
        "query": after_word(statement.text, "as"),
        "types": tuple(types),
    }


def execute(statement: ParsedStatement) -> Mapping[str, Any]:
    """`name`, `arguments` (the text of each), `given`, `constant`.

    `given` is the list of arguments with its parentheses, None without one; `constant` tells
    whether all are constants, with or without a cast.
    """
    fields = statement.fields
    encoded = statement.encoded
    params = fields.get("params", ())
    tokens = tokens_of(encoded) if params else []
    opening = next((t.start for t in tokens if t.text == "(" and t.depth == 0), None)
    return {
        "name": fields["name"],
        "arguments": tuple(p.text for p in _arguments(encoded, tokens)) if params else (),
        "given": None if opening is None else piece(encoded, opening, tokens[-1].end),
        "constant": all(_is_constant(param) for param in params),
    }


def _is_constant(node: Any) -> bool:
    while "TypeCast" in node:
        node = node["TypeCast"]["arg"]
    return "A_Const" in node


def _arguments(encoded: bytes, tokens: list[ScannedToken]) -> list[Piece]:
    """Return the pieces between the commas of the first outer parentheses."""
    opening = next(i for i, t in enumerate(tokens) if t.text == "(" and t.depth == 0)
    pieces = []
    begin = tokens[opening].end
    for token in tokens[opening + 1 :]:
        if token.depth == 1 and token.text == ",":
            pieces.append(piece(encoded, begin, token.start))
            begin = token.end
        elif token.depth == 0:
            pieces.append(piece(encoded, begin, token.start))
            break
    return pieces


def deallocate(statement: ParsedStatement) -> Mapping[str, Any]:
    """`name`, None for DEALLOCATE ALL."""
    fields = statement.fields
    return {"name": None if fields.get("isall") else fields.get("name")}


def discard(statement: ParsedStatement) -> Mapping[str, Any]:
    """`target`: all, plans, sequences or temp."""
    fields = statement.fields
    return {"target": fields.get("target", "DISCARD_ALL").removeprefix("DISCARD_").lower()}


def truncate(statement: ParsedStatement) -> Mapping[str, Any]:
    """`relations`, `only` of each, `restart_identity`, `cascade`."""
    fields = statement.fields
    return {
        "relations": tuple(_relation(r["RangeVar"]) for r in fields["relations"]),
        "only": tuple(not r["RangeVar"].get("inh", False) for r in fields["relations"]),
        "restart_identity": fields.get("restart_seqs", False),
        "cascade": fields.get("behavior") == "DROP_CASCADE",
    }


_RELATIONS: Final = frozenset({"OBJECT_TABLE", "OBJECT_INDEX", "OBJECT_VIEW", "OBJECT_MATVIEW"})
_ON_RELATIONS: Final = frozenset({"OBJECT_TRIGGER", "OBJECT_POLICY", "OBJECT_RULE"})
"""What DROP names relations for, and what it names by a relation and a name of its own."""


def drop(statement: ParsedStatement) -> Mapping[str, Any]:
    """`dropped`: relations that it names, or those of triggers, policies and rules; `schemas`."""
    fields = statement.fields
    kind, names = fields["removeType"], [_literal(entry) for entry in fields["objects"]]
    if kind in _ON_RELATIONS:
        names = [name[:-1] for name in names]
    relations = names if kind in _RELATIONS | _ON_RELATIONS else ()
    return {
        "dropped": tuple((name[-2] if len(name) > 1 else None, name[-1]) for name in relations),
        "schemas": tuple(names) if kind == "OBJECT_SCHEMA" else (),
    }


def index(statement: ParsedStatement) -> Mapping[str, Any]:
    """`indexed`, `unique`, `concurrently`; of CREATE INDEX."""
    fields = statement.fields
    return {
        "indexed": _relation(fields["relation"]),
        "unique": fields.get("unique", False),
        "concurrently": fields.get("concurrent", False),
    }


def reindex(statement: ParsedStatement) -> Mapping[str, Any]:
    """`concurrently`."""
    return {"concurrently": _is_on(_options(statement.fields, "params").get("concurrently"))}


def vacuum(statement: ParsedStatement) -> Mapping[str, Any]:
    """`is_vacuum` (else ANALYZE), `is_full`, `skips_locked`, `relations`, `options`."""
    fields = statement.fields
    relations = [r["VacuumRelation"].get("relation") for r in fields.get("rels", ())]
    options = _options(fields)
    return {
        "is_vacuum": fields.get("is_vacuumcmd", False),
        "is_full": "full" in options and _is_on(options["full"]),
        "skips_locked": "skip_locked" in options and _is_on(options["skip_locked"]),
        "relations": tuple(_relation(r) for r in relations if r),
        "options": options,
    }


def lock(statement: ParsedStatement) -> Mapping[str, Any]:
    """`relations`, `nowait`."""
    fields = statement.fields
    return {
        "relations": tuple(_relation(r["RangeVar"]) for r in fields["relations"]),
        "nowait": fields.get("nowait", False),
    }


def explain(statement: ParsedStatement) -> Mapping[str, Any]:
    """`query`, `options`, `analyze`, `inner` (parse node of the explained statement)."""
    fields = statement.fields
    encoded = statement.encoded
    tokens = tokens_of(encoded)
    begin = tokens[0].end
    rest = tokens[1:]
    options = _options(fields)
    if options and rest[0].text == "(":
        begin = next(t for t in rest if t.text == ")" and t.depth == 0).end
    else:
        for token in rest:
            if not token.is_word("analyze", "analyse", "verbose"):
                break
            begin = token.end
    return {
        "query": piece(encoded, begin),
        "options": options,
        "analyze": _is_on(options.get("analyze", options.get("analyse"))),
        "inner": next(iter(fields["query"])),
    }


def channel(statement: ParsedStatement) -> Mapping[str, Any]:
    """`channel` (None for UNLISTEN *), `payload`."""
    fields = statement.fields
    return {"channel": fields.get("conditionname"), "payload": fields.get("payload")}


def insert(statement: ParsedStatement) -> Mapping[str, Any]:
    """`target`, `source` (values, default, select), `rows`, `on_conflict`, `returning`, `with`."""
    fields = statement.fields
    source = fields.get("selectStmt", {}).get("SelectStmt")
    values = source.get("valuesLists") if source else None
    conflict = fields.get("onConflictClause")
    return {
        "target": _relation(fields["relation"]),
        "source": "default" if source is None else "values" if values else "select",
        "rows": len(values) if values else 1 if source is None else None,
        "on_conflict": conflict["action"].removeprefix("ONCONFLICT_").lower() if conflict else None,
        "returning": _returning(fields),
        "with": "withClause" in fields,
    }


def change(statement: ParsedStatement) -> Mapping[str, Any]:
    """`target`, `returning`, `with`, `current_of` (cursor name); of UPDATE, DELETE and MERGE."""
    fields = statement.fields
    where = fields.get("whereClause") or {}
    return {
        "target": _relation(fields["relation"]),
        "returning": _returning(fields),
        "with": "withClause" in fields,
        "current_of": where.get("CurrentOfExpr", {}).get("cursor_name"),
    }


def _returning(fields: Fields) -> bool:
    return bool(fields.get("returningClause") or fields.get("returningList"))


def select(statement: ParsedStatement) -> Mapping[str, Any]:
    """`locking` (FOR UPDATE and the like), `modifying` (a CTE writes), `own_call` if it is one.

    For SELECT INTO also what CREATE TABLE AS has.
    """
    fields = statement.fields
    details: dict[str, Any] = {
        "locking": "lockingClause" in fields,
        "modifying": any(
            next(iter(cte["CommonTableExpr"]["ctequery"])) != "SelectStmt"
            for cte in fields.get("withClause", {}).get("ctes", ())
        ),
    }
    inner = fields
    while "larg" in inner:
        inner = inner["larg"]
    if into := inner.get("intoClause"):
        details |= _select_into(into, statement)
    if call := _own_call(fields):
        details["own_call"] = call
    return details


def _own_call(fields: Fields) -> tuple[str, tuple[Argument, ...]] | None:
    """Return name and arguments where all there is is SELECT [* FROM] gateway.function(…)."""
    targets, relations = fields.get("targetList", ()), fields.get("fromClause", ())
    if len(targets) != 1 or len(relations) > 1 or not fields.keys() <= _CALLING:
        return None
    value = targets[0].get("ResTarget", {}).get("val", {})
    if not relations:
        call = value.get("FuncCall")
    elif [_tag(field) for field in value.get("ColumnRef", {}).get("fields", ())] == ["A_Star"]:
        call = _called_in_from(relations[0])
    else:
        return None
    if call is None or len(call["funcname"]) != 2 or _literal(call["funcname"][0]) != "gateway":
        return None
    given = call_arguments.read(call.get("args", ()))
    # What has to be computed is not for us.
    is_told = not any(isinstance(argument.value, Computed) for argument in given)
    return (str(_literal(call["funcname"][1])), given) if is_told else None


_CALLING: Final = frozenset({"targetList", "fromClause", "limitOption", "op"})


def _called_in_from(item: Any) -> Fields | None:
    """Return the function whose rows an item of FROM is, by its own name; None for any other."""
    function = item.get("RangeFunction")
    if function is None or not function.keys() <= {"functions"}:
        return None
    (listed,) = function["functions"]
    call: Fields | None = listed["List"]["items"][0].get("FuncCall")
    return call


def _tag(node: Any) -> str:
    return str(next(iter(node)))


def _select_into(into: Fields, statement: ParsedStatement) -> Mapping[str, Any]:
    encoded = statement.encoded
    tokens = tokens_of(encoded)
    at = into["rel"]["location"] - statement.start
    name = next(i for i, t in enumerate(tokens) if t.start == at)
    first = max(i for i, t in enumerate(tokens[:name]) if t.is_word("into"))
    last = name
    while last + 2 < len(tokens) and tokens[last + 1].text == ".":
        last += 2
    target = encoded[at : tokens[last].end].decode("utf-8", "surrogateescape")
    query = encoded[: tokens[first].start] + encoded[tokens[last].end :]
    query_text = query.decode("utf-8", "surrogateescape")
    prefix = _PERSISTENCE.get(into["rel"]["relpersistence"], "")
    return {
        "target": _relation(into["rel"]),
        "query": Piece(query_text, 0),
        "create_sql": f"CREATE {prefix}TABLE {target} AS {query_text} WITH NO DATA",
        "with_data": True,
        "if_not_exists": False,
        "materialized": False,
        "temporary": into["rel"]["relpersistence"] == "t",
        "columns": (),
    }


_PERSISTENCE: Final = {"t": "TEMPORARY ", "u": "UNLOGGED "}


def create_table_as(statement: ParsedStatement) -> Mapping[str, Any]:
    """`target`, `columns`, `query`, `create_sql`, `with_data`, `if_not_exists`, `temporary`.

    `create_sql` is the statement WITH NO DATA; `executes` is set for CREATE TABLE … AS EXECUTE,
    `materialized` for CREATE MATERIALIZED VIEW.
    """
    fields = statement.fields
    encoded = statement.encoded
    tokens = tokens_of(encoded)
    begin = next(t for t in tokens if t.depth == 0 and t.is_word("as")).end
    end = len(encoded)
    if [t.text.lower() for t in tokens[-3:]] == ["with", "no", "data"]:
        end = tokens[-3].start
    elif [t.text.lower() for t in tokens[-2:]] == ["with", "data"]:
        end = tokens[-2].start
    else:
        end = tokens[-1].end
    into = fields["into"]
    return {
        "target": _relation(into["rel"]),
        "columns": tuple(_literal(c) for c in into.get("colNames", ())),
        "query": piece(encoded, begin, end),
        "create_sql": encoded[:end].decode("utf-8", "surrogateescape").rstrip() + " WITH NO DATA",
        "with_data": not into.get("skipData", False),
        "if_not_exists": fields.get("if_not_exists", False),
        "materialized": fields["objtype"] == "OBJECT_MATVIEW",
        "temporary": into["rel"]["relpersistence"] == "t",
        "executes": "ExecuteStmt" in fields["query"],
    }


def call(statement: ParsedStatement) -> Mapping[str, Any]:
    """What `catalog.statements.procedure_calls` tells of it."""
    return procedure_calls.details(statement.fields)


def do(statement: ParsedStatement) -> Mapping[str, Any]:
    """`body`: the code."""
    for entry in statement.fields.get("args", ()):
        if entry["DefElem"]["defname"] == "as":
            return {"body": _literal(entry["DefElem"]["arg"])}
    return {"body": ""}


def alter_table(statement: ParsedStatement) -> Mapping[str, Any]:
    """`relation`, `setting`, `value` if all it does is give a table a setting of the gateway's.

    The value is None for RESET.

    `triggers_of` if it enables or disables all triggers of a relation; `user_triggers` is the same
    statement about those that are not internal.

    `referencing` and `referenced` if all it does is add a foreign key that is to be validated: the
    relations.

    `keeps_writers` is False if PostgreSQL does all of it beside writers, and it is nothing that
    journals keep: statistics of columns, storage parameters.
    """
    fields = statement.fields
    commands = [entry["AlterTableCmd"] for entry in fields.get("cmds", ())]
    if len(commands) == 1 and commands[0].get("subtype") == "AT_AddConstraint":
        return _added_reference(fields["relation"], commands[0]["def"]["Constraint"])
    if any(command.get("subtype") in _OF_ALL_TRIGGERS for command in commands):
        return {
            "triggers_of": _relation(fields["relation"]),
            "user_triggers": _of_user_triggers(statement.encoded),
        }
    of_table = fields.get("objtype") == "OBJECT_TABLE"
    slight = {"keeps_writers": False} if of_table and all(map(_is_slight, commands)) else {}
    if len(commands) != 1 or commands[0].get("subtype") not in _OF_STORAGE:
        return slight
    options = _storage_parameters(commands[0])
    if len(options) != 1 or options[0].get("defnamespace") != "gateway":
        return slight
    value = str(_literal(options[0]["arg"])) if "arg" in options[0] else None
    relation = _relation(fields["relation"])
    return {"relation": relation, "setting": options[0]["defname"], "value": value}


_OF_STORAGE: Final = frozenset({"AT_SetRelOptions", "AT_ResetRelOptions"})

_OF_STATISTICS: Final = frozenset({"AT_SetStatistics", "AT_SetOptions", "AT_ResetOptions"})


def _is_slight(command: Mapping[str, Any]) -> bool:
    """Return whether a part of ALTER TABLE takes no stronger lock than SHARE UPDATE EXCLUSIVE.

    See ``AlterTableGetLockLevel`` of PostgreSQL; ``user_catalog_table`` takes ACCESS EXCLUSIVE.
    """
    subtype = command.get("subtype")
    if subtype in _OF_STORAGE:
        return all(
            option["defname"] != "user_catalog_table" for option in _storage_parameters(command)
        )
    return subtype in _OF_STATISTICS


def _storage_parameters(command: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [e["DefElem"] for e in command.get("def", {}).get("List", {}).get("items", ())]


def _added_reference(relation: dict[str, Any], constraint: Mapping[str, Any]) -> Mapping[str, Any]:
    if constraint["contype"] != "CONSTR_FOREIGN" or not constraint.get("initially_valid"):
        return {}
    return {"referencing": _relation(relation), "referenced": _relation(constraint["pktable"])}


_OF_ALL_TRIGGERS: Final = frozenset({"AT_EnableTrigAll", "AT_DisableTrigAll"})


def _of_user_triggers(encoded: bytes) -> str:
    """Return a statement with TRIGGER USER for each TRIGGER ALL."""
    tokens = tokens_of(encoded)
    for before, token in reversed(list(itertools.pairwise(tokens))):
        if before.is_word("trigger") and token.is_word("all"):
            encoded = encoded[: token.start] + b"USER" + encoded[token.end :]
    return encoded.decode("utf-8", "surrogateescape")


_FUNCTIONS: Final[Mapping[str, Callable[[ParsedStatement], Mapping[str, Any]]]] = {
    "SelectStmt": select,
    "InsertStmt": insert,
    "UpdateStmt": change,
    "DeleteStmt": change,
    "MergeStmt": change,
    "CreateTableAsStmt": create_table_as,
    "CopyStmt": copy,
    "TruncateStmt": truncate,
    "TransactionStmt": transaction,
    "DeclareCursorStmt": declare,
    "FetchStmt": fetch,
    "ClosePortalStmt": close,
    "VariableSetStmt": set_,
    "VariableShowStmt": show,
    "PrepareStmt": prepare,
    "ExecuteStmt": execute,
    "DeallocateStmt": deallocate,
    "DiscardStmt": discard,
    "ExplainStmt": explain,
    "ListenStmt": channel,
    "NotifyStmt": channel,
    "UnlistenStmt": channel,
    "LockStmt": lock,
    "VacuumStmt": vacuum,
    "CallStmt": call,
    "DoStmt": do,
    "AlterTableStmt": alter_table,
    "ViewStmt": lambda _: {"keeps_writers": False},
    "DropStmt": drop,
    "ReassignOwnedStmt": lambda _: {"reassigns": True},
    "IndexStmt": index,
    "ReindexStmt": reindex,
}
