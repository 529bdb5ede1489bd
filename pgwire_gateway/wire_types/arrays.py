"""One-dimensional arrays of the types that have encoders."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pgwire_gateway.wire_types.buffers import (
    as_binary,
    as_text,
    big_endian,
    fixed,
    join,
    join_filled,
    lengths_of,
    numbers,
    validity,
    validity_buffer,
)
from pgwire_gateway.wire_types.settings import EncodingSettings

Encode = Callable[[pa.Array, EncodingSettings], pa.Array]

_NEEDS_QUOTES = r'^$|[{}",\\\s\x0b]|^(?i:null)$'
"""What array_out puts in quotes."""


def text(element: Encode) -> Encode:
    """Return the text encoder of arrays from that of their elements."""

    def encode(values: pa.Array, settings: EncodingSettings) -> pa.Array:
        elements = _quoted(as_text(as_binary(element(values.flatten(), settings))))
        listed = _listed(values, pc.fill_null(elements, "NULL"))
        return join(b"{", pc.binary_join(listed, ","), b"}")

    return encode


def binary(element: Encode, element_oid: int) -> Encode:
    """Return the binary encoder of arrays from that of their elements."""

    def encode(values: pa.Array, settings: EncodingSettings) -> pa.Array:
        elements = as_binary(element(values.flatten(), settings))
        present = validity(elements)
        lengths = lengths_of(elements)
        if present is not None:
            lengths = np.where(present, lengths, -1)
        prefixes = fixed(big_endian(lengths, ">i4"), None)
        sent = join_filled([as_binary(prefixes), elements])
        body = as_binary(pc.binary_join(_listed(values, sent), b""))
        return join(as_binary(_headers(values, lengths, element_oid)), body)

    return encode


def _quoted(elements: pa.Array) -> pa.Array:
    """Quote and escape the elements that need it."""
    needed = pc.match_substring_regex(elements, _NEEDS_QUOTES)
    if not pc.any(needed).as_py():
        return elements
    escaped = pc.replace_substring(pc.replace_substring(elements, "\\", "\\\\"), '"', '\\"')
    return pc.if_else(needed, as_text(join(b'"', escaped, b'"')), elements)


def _listed(values: pa.Array, elements: pa.Array) -> pa.Array:
    """Group elements, which those of NULL arrays are not among, as the arrays had them."""
    counts = numbers(pc.fill_null(pc.list_value_length(values), 0), np.int32)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    buffers = [validity_buffer(validity(values)), pa.py_buffer(offsets)]
    kind = pa.list_(elements.type)
    return pa.Array.from_buffers(kind, len(values), buffers, children=[elements])


def _headers(values: pa.Array, lengths: np.ndarray, element_oid: int) -> pa.Array:
    """Write dimensions, NULL flag and element type; an empty array has no dimension."""
    counts = numbers(pc.fill_null(pc.list_value_length(values), 0), np.int32)
    starts = np.cumsum(counts) - counts
    nulls = np.concatenate([[0], np.cumsum(lengths < 0)])
    words = np.empty((len(values), 5), ">i4")
    words[:, 0] = counts > 0
    words[:, 1] = nulls[starts + counts] > nulls[starts]
    words[:, 2] = element_oid
    words[:, 3] = counts
    words[:, 4] = 1
    octets = words.view(np.uint8).reshape(len(values), 20)
    full = fixed(octets, validity(values))
    if counts.all():
        return full
    return pc.if_else(
        pa.array(counts > 0), as_binary(full), as_binary(fixed(octets[:, :12], validity(values)))
    )
