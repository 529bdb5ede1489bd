"""Generates the modules beside this one from a PostgreSQL server and the headers it came with.

``make facts`` writes them anew, from the embedded server; a test compares them with it.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

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

_CONVERTERS: Final = """
CREATE FUNCTION pg_temp.letters(data bytea, encoding name) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RETURN convert_from(data, encoding);
EXCEPTION WHEN untranslatable_character OR character_not_in_repertoire THEN
    RETURN NULL;
END $$;
CREATE FUNCTION pg_temp.octets(letters text, encoding name) RETURNS bytea LANGUAGE plpgsql AS $$
BEGIN
    RETURN convert_to(letters, encoding);
EXCEPTION WHEN untranslatable_character OR character_not_in_repertoire THEN
    RETURN NULL;
END $$;
"""
_SINGLE_BYTE: Final = """
SELECT pg_encoding_to_char(e)::text
  FROM generate_series(0, 100) e
 WHERE pg_encoding_to_char(e) NOT IN ('', 'SQL_ASCII') AND pg_encoding_max_length(e) = 1
 ORDER BY e
"""
_UNDEFINED: Final = "\ufffe"
"""What Python's tables have for bytes that stand for nothing."""

CODECS: Final = {
    "BIG5": "big5",
    "EUC_CN": "gb2312",
    "EUC_JP": "euc_jp",
    "GB18030": "gb18030",
    "GBK": "gbk",
    "SJIS": "cp932",
    "UHC": "cp949",
}
"""Encodings of several bytes, and those of Python's codecs that differ least from PostgreSQL."""

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
            "encodings.py": _encodings(connection),
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


def _encodings(connection: psycopg.Connection) -> str:
    connection.execute(_CONVERTERS.encode())
    lines = ["from typing import Final", "", "SINGLE_BYTE: Final[dict[str, str]] = {"]
    for (name,) in connection.execute(_SINGLE_BYTE).fetchall():
        found = letters(connection, name, (bytes([byte]) for byte in range(128, 256)))
        text = "".join(letter or _UNDEFINED for letter in found.values())
        lines += [f'    "{name}": (', *_wrapped(_escaped(text), " " * 8), "    ),"]
    lines += [
        "}",
        '"""What the bytes from 128 on stand for, by encoding; U+FFFE where that is nothing."""',
        "",
        "# fmt: off",
        "MULTIBYTE: Final[dict[str, tuple[str, str, str, str, str, str, str]]] = {",
    ]
    for name, codec in CODECS.items():
        lines += [f'    "{name}": (', f'        "{codec}",']
        for words in _amendments(connection, name, codec):
            between = "" if words and words[0][0] == "\\" else " "
            lines += ["        (", *_wrapped(words, " " * 12, between), "        ),"]
        lines.append("    ),")
    lines += [
        "}",
        '"""Encodings of several bytes: the nearest one of Python\'s codecs, and how they differ.',
        "",
        "First and last of the characters that PostgreSQL does not know; characters that it",
        "encodes otherwise, and how, in hexadecimal; what it decodes otherwise, and to what,",
        "U+FFFE where that is nothing; and what Python makes of the sequences of these.",
        '"""',
        "# fmt: on",
    ]
    return _module(connection, "PostgreSQL's encodings other than UTF8. Pure data.", lines)


def letters(
    connection: psycopg.Connection, encoding: str, sequences: Iterable[bytes]
) -> dict[bytes, str | None]:
    """Return what sequences of bytes stand for; None where they stand for nothing.

    `_CONVERTERS` are to be there.
    """
    sql = "SELECT s, pg_temp.letters(s, %s) FROM unnest(%s::bytea[]) s"
    rows = connection.execute(sql, [encoding, list(sequences)])
    return {bytes(sequence): text for sequence, text in rows}


def octets(
    connection: psycopg.Connection, encoding: str, characters: Iterable[str]
) -> dict[str, bytes | None]:
    """Return how characters are encoded; None for those that an encoding does not have."""
    sql = "SELECT s, pg_temp.octets(s, %s) FROM unnest(%s::text[]) s"
    rows = connection.execute(sql, [encoding, list(characters)])
    return {text: None if data is None else bytes(data) for text, data in rows}


CHARACTERS: Final = [chr(code) for code in (*range(128, 0xD800), *range(0xE000, 0x10000))]
"""All characters of the Basic Multilingual Plane but those of ASCII."""


def sequences(encoding: str) -> list[bytes]:
    """Return all sequences of bytes that one character of an encoding can be."""
    found = [bytes([byte]) for byte in range(128, 256)]
    found += [bytes([lead, next_]) for lead in range(128, 256) for next_ in range(0x21, 256)]
    if encoding == "EUC_JP":
        trail = range(0xA1, 0xFF)
        found += [bytes([0x8F, second, third]) for second in trail for third in trail]
    return found


def _amendments(connection: psycopg.Connection, name: str, codec: str) -> tuple[list[str], ...]:
    """Return how an encoding differs from one of Python's codecs."""
    encoded, unknown = {}, []
    for letter, data in octets(connection, name, CHARACTERS).items():
        if data != _tried(letter, str.encode, codec):
            if data is None:
                unknown.append(ord(letter))
            else:
                encoded[letter] = data
    decoded, suspects = {}, set()
    for data, text in letters(connection, name, sequences(name)).items():
        theirs = _tried(data, bytes.decode, codec)
        if text == theirs or len(text or " ") != 1 or len(theirs or " ") != 1:
            continue
        # What stands for a character that PostgreSQL does not know needs no mention.
        if text is not None or theirs is None or ord(theirs) not in unknown:
            decoded[data] = text or _UNDEFINED
            suspects.add(theirs or "")
    return (
        _escaped("".join(chr(code) for pair in _ranges(unknown) for code in pair)),
        _escaped("".join(encoded)),
        [data.hex() for data in encoded.values()],
        [data.hex() for data in decoded],
        _escaped("".join(decoded.values())),
        _escaped("".join(sorted(suspects))),
    )


def _ranges(codes: Iterable[int]) -> list[list[int]]:
    """Return the first and the last one of numbers that follow each other."""
    found: list[list[int]] = []
    for code in sorted(codes):
        if found and code == found[-1][1] + 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return found


def _tried(value: Any, convert: Callable[[Any, str], Any], codec: str) -> Any:
    try:
        return convert(value, codec)
    except UnicodeError:
        return None


def _escaped(text: str) -> list[str]:
    return [f"\\u{ord(letter):04x}" for letter in text]


def _wrapped(words: Sequence[str], indent: str, between: str = "") -> Iterable[str]:
    """Yield lines of string literals that make up a text."""
    for at in range(0, max(len(words), 1), 12):
        part = words[at : at + 12]
        after = between if at + 12 < len(words) else ""
        yield f'{indent}"{between.join(part)}{after}"'


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
