"""Generates the modules beside this one from a PostgreSQL server and the headers it came with.

``make facts`` writes them anew, from the embedded server; a test compares them with it.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import psycopg

_TYPES: Final = """
SELECT t.oid::int8, t.typname::text, t.typelem::int8
  FROM pg_type t
 WHERE t.oid < 10000 AND t.typnamespace = 'pg_catalog'::regnamespace AND t.typrelid = 0
   AND NOT EXISTS (SELECT FROM pg_type e WHERE e.oid = t.typelem AND e.typrelid <> 0)
 ORDER BY t.oid
"""
_ARRAYS: Final = "SELECT typarray::int8, oid::int8 FROM pg_type WHERE typarray <> 0"

_PROCEDURES: Final = """
SELECT p.oid, p.prosrc, l.lanname, p.prokind, p.proname,
       array(SELECT t.typname FROM unnest(p.proargtypes) WITH ORDINALITY AS a(oid, n)
             JOIN pg_type t ON t.oid = a.oid ORDER BY n)
  FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
 WHERE p.oid < 16384 AND l.lanname IN ('internal', 'sql') ORDER BY p.oid
"""
_SORT_OPERATORS: Final = """
SELECT o.amopopr, o.amopstrategy = 5
  FROM pg_amop o
  JOIN pg_opclass c
    ON c.opcfamily = o.amopfamily AND c.opcintype = o.amoplefttype AND c.opcdefault
 WHERE o.amopmethod = 403 AND o.amopstrategy IN (1, 5) AND o.amoplefttype = o.amoprighttype
   AND o.amopopr < 16384
 ORDER BY o.amopopr
"""

ENUMS: Final = {
    "nodes/nodes.h": {
        "CmdType": "CMD_",
        "JoinType": "JOIN_",
        "LimitOption": "LIMIT_OPTION_",
        "OnConflictAction": "ONCONFLICT_",
    },
    "nodes/lockoptions.h": {"LockClauseStrength": "LCS_", "LockWaitPolicy": "LockWait"},
    "nodes/parsenodes.h": {
        "GroupingSetKind": "GROUPING_SET_",
        "RTEKind": "RTE_",
        "SetOperation": "SETOP_",
    },
    "nodes/primnodes.h": {
        "BoolTestType": "IS_",
        "MergeMatchKind": "MERGE_WHEN_",
        "MinMaxOp": "IS_",
        "NullTestType": "IS_",
        "ParamKind": "PARAM_",
        "SQLValueFunctionOp": "SVFOP_",
        "SubLinkType": "_SUBLINK",
        "VarReturningType": "VAR_RETURNING_",
    },
}
"""Enumerations of the parser's nodes by header, with what their members' names have in common."""

_COMMENT: Final = re.compile(r"/\*.*?\*/", re.DOTALL)
_FRAME_OPTION: Final = re.compile(r"#define FRAMEOPTION_(\w+)\s+(0x[0-9A-F]+)")
_SQLSTATE: Final = re.compile(
    r"#define ERRCODE_(\w+) MAKE_SQLSTATE\('(.)','(.)','(.)','(.)','(.)'\)"
)


def texts(url: str) -> dict[str, str]:
    """Return the texts of the generated modules by their names, for the server at `url`.

    A superuser's connection to a server on this machine is needed.
    """
    with psycopg.connect(url) as connection:
        (directory,) = _one(
            connection, "SELECT setting FROM pg_config WHERE name = 'INCLUDEDIR-SERVER'"
        )
        headers = Path(str(directory))
        return {
            "types.py": _types(connection),
            "functions.py": _functions(connection),
            "nodes.py": _nodes(connection, headers),
            "sqlstate.py": _sqlstates(connection, headers),
        }


def write(url: str) -> None:
    """Write the modules."""
    for name, text in texts(url).items():
        Path(__file__).with_name(name).write_text(text, encoding="utf-8")


def _one(connection: psycopg.Connection, sql: str) -> tuple[object, ...]:
    row = connection.execute(sql.encode()).fetchone()
    if row is None:
        raise LookupError(sql)
    return row


def _module(connection: psycopg.Connection, title: str, lines: Iterable[str]) -> str:
    version = str(connection.info.parameter_status("server_version")).split()[0]
    head = [f'"""{title}', "", f"Generated from PostgreSQL {version} by `make facts`.", '"""', ""]
    return "\n".join([*head, *lines, ""])


def _types(connection: psycopg.Connection) -> str:
    rows = connection.execute(_TYPES).fetchall()
    named = {oid for oid, _, _ in rows}
    arrays = sorted(
        (array, element)
        for array, element in connection.execute(_ARRAYS).fetchall()
        if array in named and element in named
    )
    return _module(
        connection,
        "OIDs of PostgreSQL's built-in types, by name. Pure data.",
        [
            "from typing import Final",
            "",
            *(f"{_constant(name)}: Final = {oid}" for oid, name, _ in rows),
            "",
            "ELEMENTS: Final[dict[int, int]] = {",
            *(f"    {array}: {element}," for array, element in arrays),
            "}",
            '"""Types of elements by array type."""',
        ],
    )


def _constant(name: str) -> str:
    """Return the name of a type's constant; the catalog writes arrays with an underscore."""
    element = name.removeprefix("_")
    constant = "INTERNAL_CHAR" if element == "char" else re.sub(r"\W", "_", element).upper()
    return f"{constant}_ARRAY" if element != name else constant


def _functions(connection: psycopg.Connection) -> str:
    procedures = []
    for oid, source, language, kind, name, types in connection.execute(_PROCEDURES):
        signature = f"{name}({','.join(types)})"
        key = source if language == "internal" and kind == "f" else signature
        procedures.append(f'    {oid}: ("{key}", "{signature}"),')
    operators = connection.execute(_SORT_OPERATORS).fetchall()
    return _module(
        connection,
        "Built-in functions by OID, and the operators that sort.",
        [
            "from typing import Final",
            "",
            "PROCEDURES: Final[dict[int, tuple[str, str]]] = {",
            *procedures,
            "}",
            '"""OID → key of the function, its signature.',
            "",
            "The key is the C name of internal functions, the signature of all others.",
            '"""',
            "",
            "SORT_OPERATORS: Final[dict[int, bool]] = {",
            *(f"    {oid}: {descending}," for oid, descending in operators),
            "}",
            '"""OID of each operator of a default ordering → whether it orders downwards."""',
        ],
    )


def _nodes(connection: psycopg.Connection, headers: Path) -> str:
    lines = ["from enum import IntEnum, IntFlag"]
    for header, enums in ENUMS.items():
        text = _COMMENT.sub("", headers.joinpath(header).read_text(encoding="utf-8"))
        for name, common in enums.items():
            lines += ["", "", f"class {name}(IntEnum):", f'    """Of {header}."""', ""]
            lines += [f"    {member} = {value}" for member, value in _members(text, name, common)]
    options = _FRAME_OPTION.findall(headers.joinpath("nodes/parsenodes.h").read_text())
    lines += ["", "", "class FrameOption(IntFlag):", '    """Of nodes/parsenodes.h."""', ""]
    lines += [f"    {name} = {int(value, 16):#x}" for name, value in options]
    title = "Enumerations of the nodes of PostgreSQL's trees, which are printed as numbers."
    return _module(connection, title, lines)


def _members(text: str, name: str, common: str) -> Iterable[tuple[str, int]]:
    """Yield names and values of an enumeration of C."""
    found = re.search(rf"enum {name}\s*{{([^}}]*)}}", text)
    if found is None:
        raise LookupError(name)
    value = -1
    for item in found[1].split(","):
        member, _, given = item.partition("=")
        if member.strip():
            value = int(given, 0) if given.strip() else value + 1
            short = member.strip().removeprefix(common).removesuffix(common)
            yield re.sub(r"(?<=[a-z])(?=[A-Z])", "_", short).upper(), value


def _sqlstates(connection: psycopg.Connection, headers: Path) -> str:
    text = headers.joinpath("utils/errcodes.h").read_text(encoding="utf-8")
    codes = {name: "".join(code) for name, *code in _SQLSTATE.findall(text)}
    # Only one name of class 40 would be another's without what these begin with.
    short = {name: name.removeprefix("T_R_") for name in codes}
    named = [
        (name if name != short[name] and short[name] in codes else short[name], code)
        for name, code in codes.items()
    ]
    return _module(
        connection,
        "SQLSTATE codes by their names in PostgreSQL's appendix A.",
        ["from typing import Final", "", *(f'{name}: Final = "{code}"' for name, code in named)],
    )
