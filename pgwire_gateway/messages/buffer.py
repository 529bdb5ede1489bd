"""Fields of one message to and from bytes; all bounds checks of the protocol are here.

Section "Message Data Types" of PostgreSQL's protocol chapter. Knows no message.
"""

import struct
from collections.abc import Sequence

from pgwire_gateway.messages.errors import (
    InvalidTextError,
    MalformedMessageError,
    UntranslatableTextError,
)

_INT16 = struct.Struct("!h")
_INT32 = struct.Struct("!i")
_UINT16 = struct.Struct("!H")
_UINT32 = struct.Struct("!I")

_NULL = -1
"""Length that stands for a NULL value."""


class Reader:
    """Takes the fields of one message body in order.

    Raises:
        MalformedMessageError: from every method, when the body is shorter than its fields say.
    """

    __slots__ = ("_data", "_encoding", "_position")

    def __init__(self, data: bytes, encoding: str = "utf-8") -> None:
        self._data = data
        self._position = 0
        self._encoding = encoding

    @property
    def encoding(self) -> str:
        """Name the encoding of Strings."""
        return self._encoding

    @property
    def remaining(self) -> int:
        """Count the bytes not yet taken."""
        return len(self._data) - self._position

    def byte(self) -> bytes:
        """Take a Byte1."""
        if self.remaining < 1:
            raise MalformedMessageError("no data left in message")
        return self.raw(1)

    def int16(self) -> int:
        """Take a signed Int16."""
        return int(_INT16.unpack_from(self._data, self._advance(2))[0])

    def count(self) -> int:
        """Take an Int16 that counts something; PostgreSQL reads all counts as unsigned."""
        return int(_UINT16.unpack_from(self._data, self._advance(2))[0])

    def int32(self) -> int:
        """Take a signed Int32."""
        return int(_INT32.unpack_from(self._data, self._advance(4))[0])

    def oid(self) -> int:
        """Take an OID, an unsigned Int32."""
        return int(_UINT32.unpack_from(self._data, self._advance(4))[0])

    def raw(self, length: int) -> bytes:
        """Take exactly ``length`` bytes."""
        start = self._advance(length)
        return self._data[start : start + length]

    def rest(self) -> bytes:
        """Take everything up to the end of the message."""
        return self.raw(self.remaining)

    def value(self) -> bytes | None:
        """Take an Int32 length and that many bytes; length -1 is NULL."""
        length = self.int32()
        return None if length == _NULL else self.raw(length)

    def format_codes(self) -> tuple[int, ...]:
        """Take a count and that many format codes."""
        return tuple(self.int16() for _ in range(self.count()))

    def string(self) -> str:
        """Take a String, bytes up to and without a zero byte.

        Raises:
            InvalidTextError: the bytes are not text in the client's encoding.
        """
        end = self._data.find(b"\0", self._position)
        if end < 0:
            raise MalformedMessageError("invalid string in message")
        raw = self._data[self._position : end]
        self._position = end + 1
        return decode_text(raw, self._encoding)

    def end(self) -> None:
        """Check that nothing is left."""
        if self.remaining:
            raise MalformedMessageError("invalid message format")

    def _advance(self, length: int) -> int:
        start = self._position
        if length < 0 or length > len(self._data) - start:
            raise MalformedMessageError("insufficient data left in message")
        self._position = start + length
        return start


class Writer:
    """Appends the fields of one message body in order.

    Fields that a trace must not show, or not show always, have methods of their own: ``oid``,
    ``process_id``, ``secret_key``, ``credential``, ``diagnostic``, ``opaque``.
    """

    def __init__(self, encoding: str = "utf-8") -> None:
        self._parts = bytearray()
        self._encoding = encoding

    def getvalue(self) -> bytes:
        """Return the body written so far."""
        return bytes(self._parts)

    def byte(self, value: bytes) -> None:
        """Append a Byte1."""
        if len(value) != 1:
            raise ValueError(f"not a single byte: {value!r}")
        self._parts += value

    def int16(self, value: int) -> None:
        """Append a signed Int16."""
        self._parts += _INT16.pack(value)

    def count(self, value: int) -> None:
        """Append an Int16 that counts something, 65535 at most."""
        self._parts += _UINT16.pack(value)

    def int32(self, value: int) -> None:
        """Append a signed Int32."""
        self._parts += _INT32.pack(value)

    def selector(self, value: int) -> None:
        """Append an Int32 that says which message this is."""
        self._parts += _INT32.pack(value)

    def oid(self, value: int) -> None:
        """Append an OID, an unsigned Int32."""
        self._parts += _UINT32.pack(value)

    def process_id(self, value: int) -> None:
        """Append the process id of a session."""
        self._parts += _INT32.pack(value)

    def secret_key(self, value: bytes) -> None:
        """Append a secret key; it ends with the message."""
        self._parts += value

    def credential(self, value: bytes) -> None:
        """Append bytes that help to authenticate and end with the message."""
        self._parts += value

    def opaque(self, value: bytes) -> None:
        """Append bytes the protocol does not look into; they end with the message."""
        self._parts += value

    def value(self, value: bytes | None) -> None:
        """Append an Int32 length and the bytes; None, a NULL, is length -1."""
        if value is None:
            self._parts += _INT32.pack(_NULL)
        else:
            self._parts += _INT32.pack(len(value))
            self._parts += value

    def format_codes(self, codes: Sequence[int]) -> None:
        """Append a count and the format codes."""
        self.count(len(codes))
        for code in codes:
            self.int16(code)

    def string(self, value: str) -> None:
        """Append a String with its zero byte."""
        raw = encode_text(value, self._encoding)
        if b"\0" in raw:
            raise ValueError("a String of the protocol cannot hold a zero byte")
        self._parts += raw
        self._parts += b"\0"

    def password(self, value: str) -> None:
        """Append a String that is a password."""
        Writer.string(self, value)

    def diagnostic(self, code: str, value: str) -> None:
        """Append one field of an error or notice: its code and its String."""
        self._parts += code.encode("ascii")
        Writer.string(self, value)

    def terminator(self) -> None:
        """Append the zero byte that ends a list of Strings."""
        self._parts += b"\0"


def decode_text(raw: bytes, encoding: str) -> str:
    """Decode bytes of a client, or fail as PostgreSQL does.

    Raises:
        InvalidTextError: the bytes are not text in that encoding.
        UntranslatableTextError: They stand for nothing that can be stored.
    """
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError as error:
        sequence = raw[error.start :][: _sequence_length(raw[error.start], encoding)]
        shown, name = _shown(sequence), _postgres_name(encoding)
        if error.encoding == _TABLE:
            # Each byte is a character there, but not of Unicode.
            raise UntranslatableTextError(_untranslatable(shown, name, "UTF8")) from None
        message = f'invalid byte sequence for encoding "{name}": {shown}'
        raise InvalidTextError(message, raw) from None


def encode_text(text: str, encoding: str) -> bytes:
    """Encode text for a client, or fail as PostgreSQL does.

    Raises:
        UntranslatableTextError: A character has no equivalent in that encoding.
    """
    try:
        return text.encode(encoding)
    except UnicodeEncodeError as error:
        shown = _shown(text[error.start].encode("utf-8", "surrogatepass"))
        message = _untranslatable(shown, "UTF8", _postgres_name(encoding))
        raise UntranslatableTextError(message) from None


_OWN_CODECS = "postgres_"
"""What names of codecs begin with that are made after PostgreSQL's encodings, and named so."""

_TABLE = "charmap"
"""What Python calls the encoding of those that convert byte by byte."""


def _shown(sequence: bytes) -> str:
    return " ".join(f"0x{byte:02x}" for byte in sequence)


def _untranslatable(shown: str, before: str, after: str) -> str:
    return (
        f'character with byte sequence {shown} in encoding "{before}" has no equivalent in encoding'
        f' "{after}"'
    )


def _postgres_name(encoding: str) -> str:
    return "UTF8" if encoding == "utf-8" else encoding.removeprefix(_OWN_CODECS).upper()


def _sequence_length(lead: int, encoding: str) -> int:
    # PostgreSQL shows as many bytes as the lead byte announces (pg_utf_mblen), valid or not.
    if encoding != "utf-8":
        return 1
    for length, mask, mark in ((2, 0xE0, 0xC0), (3, 0xF0, 0xE0), (4, 0xF8, 0xF0)):
        if lead & mask == mark:
            return length
    return 1
