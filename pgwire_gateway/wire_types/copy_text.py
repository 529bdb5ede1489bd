"""Fields of the text and CSV formats of COPY TO, as PostgreSQL's copyto.c writes them."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pgwire_gateway.wire_types.buffers import as_binary, as_text, join, octets_of

_TEXT_ESCAPES: Final = {
    "\\": "\\\\",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}
"""Backslash comes first, the others put it in."""


def text_field(values: pa.Array, delimiter: str, null: str) -> pa.Array:
    """Escape text for COPY's text format."""
    escapes = dict(_TEXT_ESCAPES)
    escapes.setdefault(delimiter, "\\" + delimiter)
    written = as_text(as_binary(values))
    if _occurs(written, escapes):
        for plain, escaped in escapes.items():
            written = pc.replace_substring(written, plain, escaped)
    return pc.fill_null(written, null)


def csv_field(  # noqa: PLR0913
    values: pa.Array,
    delimiter: str,
    null: str,
    quote: str,
    escape: str,
    *,
    forced: bool,
    alone: bool,
) -> pa.Array:
    r"""Quote text for COPY's CSV format.

    ``forced`` quotes all values but NULL; ``alone`` tells that the row has no other field, where
    ``\.`` would read as end of data.
    """
    written = as_text(as_binary(values))
    needed = pc.equal(written, null)
    if forced:
        needed = pc.is_valid(written)
    else:
        if alone:
            needed = pc.or_(needed, pc.equal(written, "\\."))
        specials = (delimiter, quote, "\n", "\r")
        if _occurs(written, specials):
            needed = pc.or_(needed, pc.match_substring_regex(written, _any_of(specials)))
    if pc.any(needed).as_py():
        quoted = written
        if escape != quote:
            quoted = pc.replace_substring(quoted, escape, escape * 2)
        quoted = pc.replace_substring(quoted, quote, escape + quote)
        mark = quote.encode()
        written = pc.if_else(needed, as_text(join(mark, quoted, mark)), written)
    return pc.fill_null(written, null)


def _occurs(written: pa.Array, letters: Sequence[str] | dict[str, str]) -> bool:
    """Tell whether any of the characters, all of them ASCII, is in any of the values."""
    wanted = np.zeros(256, np.bool_)
    wanted[[ord(letter) for letter in letters]] = True
    return bool(wanted[octets_of(written)].any())


def _any_of(letters: Sequence[str] | dict[str, str]) -> str:
    return "[" + "".join(f"\\x{{{ord(letter):x}}}" for letter in letters) + "]"
