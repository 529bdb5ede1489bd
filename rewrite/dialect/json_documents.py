"""Documents of type jsonb: their datum, their one text, and what equals them (jsonb.h)."""

import json
import re
import struct
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Final, TypeAlias

Document: TypeAlias = "dict[str, Document] | list[Document] | str | Decimal | bool | None"

_COUNT: Final = 0x0FFFFFFF
_SCALAR: Final = 0x10000000
_OBJECT: Final = 0x20000000
_OFFSET: Final = 0x80000000
_KIND: Final = 0x70000000
_STRING: Final = 0x00000000
_NUMERIC: Final = 0x10000000
_KNOWN: Final[Mapping[int, bool | None]] = {0x20000000: False, 0x30000000: True, 0x40000000: None}
_WORD: Final = 4


def of_datum(data: bytes, numeric: Callable[[bytes], Decimal]) -> Document:
    """Return the document in the contents of a datum; ``numeric`` decodes one of a number."""
    (header,) = struct.unpack_from("<I", data)
    found = _container(data, numeric)
    return found[0] if header & _SCALAR and isinstance(found, list) else found


def _container(data: bytes, numeric: Callable[[bytes], Decimal]) -> Document:
    (header,) = struct.unpack_from("<I", data)
    count = header & _COUNT
    children = count * 2 if header & _OBJECT else count
    entries = struct.unpack_from(f"<{children}I", data, _WORD)
    values, end = data[_WORD * (children + 1) :], 0
    found: list[Document] = []
    for entry in entries:
        start, end = end, entry & _COUNT if entry & _OFFSET else end + (entry & _COUNT)
        kind = entry & _KIND
        if kind == _STRING:
            found.append(values[start:end].decode())
        elif kind in _KNOWN:
            found.append(_KNOWN[kind])
        else:
            aligned = values[-(-start // _WORD) * _WORD : end]
            is_number = kind == _NUMERIC
            found.append(numeric(aligned) if is_number else _container(aligned, numeric))
    if header & _OBJECT:
        return {str(key): value for key, value in zip(found[:count], found[count:], strict=True)}
    return found


def of_text(text: str) -> Document:
    """Return the document of a text that PostgreSQL has printed, numbers with all their digits."""
    document: Document = json.loads(text, parse_int=Decimal, parse_float=Decimal)
    return document


def printed(document: Document) -> str:
    r"""Return the text that PostgreSQL prints of a document.

    >>> printed({"bb": [Decimal("1.10"), None], "a": "\n"})
    '{"a": "\\n", "bb": [1.10, null]}'
    """
    if isinstance(document, dict):
        members = [f"{quoted(key)}: {printed(document[key])}" for key in _ordered(document)]
        return "{" + ", ".join(members) + "}"
    if isinstance(document, list):
        return "[" + ", ".join(map(printed, document)) + "]"
    if isinstance(document, str):
        return quoted(document)
    if isinstance(document, Decimal):
        return f"{document:f}"
    return "null" if document is None else str(document).lower()


def pattern_of(document: Document) -> str:
    r"""Return a regular expression of the texts of all documents that equal this one.

    Numbers are equal whatever zeros they end with; all else is printed in one way only.

    >>> pattern_of([Decimal("1.50"), Decimal(2), "a.b"])
    '\\[1\\.50*, 2(?:\\.0+)?, "a\\.b"\\]'
    """
    if isinstance(document, dict):
        members = [
            f"{re.escape(quoted(key))}: {pattern_of(document[key])}" for key in _ordered(document)
        ]
        return r"\{" + ", ".join(members) + r"\}"
    if isinstance(document, list):
        return r"\[" + ", ".join(map(pattern_of, document)) + r"\]"
    if not isinstance(document, Decimal):
        return re.escape(printed(document))
    whole, _, fraction = f"{document:f}".partition(".")
    fraction = fraction.rstrip("0")
    return re.escape(whole) + (rf"\.{fraction}0*" if fraction else r"(?:\.0+)?")


def quoted(text: str) -> str:
    r"""Return a text as JSON has it between quotation marks (``escape_json``).

    >>> quoted('é"\x1f')
    '"é\\"\\u001f"'
    """
    return json.dumps(text, ensure_ascii=False)


def _ordered(members: Mapping[str, Document]) -> list[str]:
    """Return the keys of an object as they are stored: the short ones first."""
    return sorted(members, key=lambda key: (len(key.encode()), key.encode()))
