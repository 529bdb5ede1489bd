"""Python's codecs of PostgreSQL's encodings, which convert as PostgreSQL does.

Follows "Character Set Support" of PostgreSQL's documentation. A codec of ours is named after the
encoding, ``postgres_latin1``. Where Python has none that agrees with PostgreSQL in every character,
there is none here.
"""

import codecs
import re
from typing import Final

from typing_extensions import Buffer

from catalog.pg.encodings import MULTIBYTE, SINGLE_BYTE

UTF8: Final = "utf-8"
"""The codec of what is not converted."""

UNCONVERTED: Final = frozenset({"UTF8", "SQL_ASCII"})
"""Client encodings in which text travels as the server holds it."""

_PREFIX: Final = "postgres_"

_ASCII: Final = "".join(map(chr, range(128)))

_UNDEFINED: Final = "\ufffe"

Text = tuple[str, int]
Data = tuple[bytes, int]


def codec_of(encoding: str) -> str | None:
    """Return the codec that converts as PostgreSQL does; None where there is none.

    Args:
        encoding: PostgreSQL's name of the encoding.
    """
    if encoding in UNCONVERTED:
        return UTF8
    known = encoding in SINGLE_BYTE or encoding in MULTIBYTE
    return f"{_PREFIX}{encoding.lower()}" if known else None


def encoding_of(codec: str) -> str:
    """Return PostgreSQL's name of the encoding of a codec."""
    return codec.removeprefix(_PREFIX).upper() if codec.startswith(_PREFIX) else "UTF8"


def ascii_equivalents(encoding: str) -> dict[str, str]:
    """Return the other characters that are sent as some of ASCII, as the yen sign is in SJIS."""
    if encoding not in MULTIBYTE:
        return {}
    _, _, encoded, encodings, *_ = MULTIBYTE[encoding]
    pairs = zip(encoded, map(bytes.fromhex, encodings.split()), strict=True)
    return {letter: data.decode() for letter, data in pairs if data.isascii()}


class _Table:
    """An encoding of single bytes."""

    def __init__(self, letters: str) -> None:
        self._letters = _ASCII + letters
        self._table = codecs.charmap_build(self._letters)

    def encode(self, text: str, errors: str = "strict") -> Data:
        return codecs.charmap_encode(text, errors, self._table)

    def decode(self, data: Buffer, errors: str = "strict") -> Text:
        return codecs.charmap_decode(data, errors, self._letters)


class _Amended:
    """An encoding of several bytes that differs from one of Python's in few characters."""

    def __init__(self, encoding: str) -> None:
        python, unknown, encoded, encodings, sequences, decoded, suspects = MULTIBYTE[encoding]
        self._name = f"{_PREFIX}{encoding.lower()}"
        self._is_sjis = encoding == "SJIS"
        self._is_euc_jp = encoding == "EUC_JP"
        self._python = codecs.lookup(python)
        self._encoded = dict(zip(encoded, map(bytes.fromhex, encodings.split()), strict=True))
        self._decoded = dict(zip(map(bytes.fromhex, sequences.split()), decoded, strict=True))
        self._decodes_alike = not (sequences or unknown)
        ranges = "".join(map("{}-{}".format, unknown[::2], unknown[1::2]))
        self._others = _any_of(ranges + re.escape(encoded))
        self._unknown = _any_of(ranges)
        self._suspects = _any_of(ranges + re.escape(suspects))

    def encode(self, text: str, errors: str = "strict") -> Data:
        parts, end = [], 0
        for found in self._others.finditer(text):
            parts.append(self._plain(text, end, found.start(), errors))
            parts.append(self._other(text, found, errors))
            end = found.end()
        parts.append(self._plain(text, end, len(text), errors))
        return b"".join(parts), len(text)

    def _plain(self, text: str, start: int, end: int, errors: str) -> bytes:
        try:
            return self._python.encode(text[start:end], errors)[0]
        except UnicodeEncodeError as error:
            error.object, error.start, error.end = text, error.start + start, error.end + start
            raise

    def _other(self, text: str, found: re.Match[str], errors: str) -> bytes:
        encoded = self._encoded.get(found[0])
        if encoded is not None:
            return encoded
        error = UnicodeEncodeError(self._name, text, *found.span(), "it is not in the encoding")
        instead, _ = codecs.lookup_error(errors)(error)
        return instead if isinstance(instead, bytes) else instead.encode("ascii")

    def decode(self, data: Buffer, errors: str = "strict") -> Text:
        if self._decodes_alike:
            return self._python.decode(data, errors)
        octets = bytes(data)
        try:
            text, length = self._python.decode(octets)
        except UnicodeDecodeError:
            return self._one_by_one(octets, errors), len(octets)
        if self._suspects.search(text):
            return self._one_by_one(octets, errors), len(octets)
        return text, length

    def _one_by_one(self, data: bytes, errors: str) -> str:
        letters, place = [], 0
        while place < len(data):
            end = place + self._length(data[place])
            letter = self._letter(data[place:end])
            if letter is None:
                error = UnicodeDecodeError(
                    self._name, data, place, min(end, len(data)), "it is no character"
                )
                instead, end = codecs.lookup_error(errors)(error)
                letter = str(instead)
            letters.append(letter)
            place = end
        return "".join(letters)

    def _length(self, lead: int) -> int:
        if lead < 0x80 or (self._is_sjis and 0xA1 <= lead <= 0xDF):
            return 1
        return 3 if self._is_euc_jp and lead == 0x8F else 2

    def _letter(self, sequence: bytes) -> str | None:
        """Return what a sequence of bytes stands for; None where that is nothing."""
        letter = self._decoded.get(sequence)
        if letter is None:
            try:
                letter = self._python.decode(sequence)[0]
            except UnicodeDecodeError:
                return None
            if len(letter) != 1 or self._unknown.search(letter):
                return None
        return None if letter == _UNDEFINED else letter


def _any_of(letters: str) -> re.Pattern[str]:
    """Return what finds these characters."""
    return re.compile(f"[{letters}]" if letters else r"(?!)")


def _found(name: str) -> codecs.CodecInfo | None:
    """Return one of our codecs; None for names of others."""
    if not name.startswith(_PREFIX):
        return None
    encoding = encoding_of(name)
    codec: _Table | _Amended
    if encoding in SINGLE_BYTE:
        codec = _Table(SINGLE_BYTE[encoding])
    elif encoding in MULTIBYTE:
        codec = _Amended(encoding)
    else:
        return None
    return codecs.CodecInfo(codec.encode, codec.decode, name=name)


codecs.register(_found)
