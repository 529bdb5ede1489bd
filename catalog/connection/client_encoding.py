"""The encoding in which PostgreSQL and libpq take and give texts of a session.

That is the client's, but for steps of our own: what these tell, and ask for, need not be in the
client's encoding at all. They are taken in UTF-8, which the server is told around them.
"""

from collections.abc import Iterable
from typing import Final

from psycopg.pq.abc import PGconn

from catalog.errors import CatalogError
from catalog.pg import sqlstate
from catalog.pg.statement_tokens import tokens_of
from catalog.pg.text_codecs import UNCONVERTED, UTF8, codec_of

_APPROXIMATE: Final = {"EUC_KR": "euc_kr"}
"""Codecs that differ from PostgreSQL in few characters."""

_CODECS: Final[dict[bytes | None, str]] = dict.fromkeys(
    (None, *(name.encode() for name in UNCONVERTED)), UTF8
)
"""The codec of what the server does not convert, by the name that it reports."""

_SETTING: Final = b"client_encoding"


class ClientEncoding:
    """The setting ``client_encoding`` of one connection, as it is at each moment."""

    def __init__(self, connection: PGconn) -> None:
        self._connection = connection
        self.is_own = False
        """Whether a step of our own is sent, or its result read, which is in UTF-8."""

    @property
    def name(self) -> str:
        """PostgreSQL's name of it."""
        return (self._connection.parameter_status(_SETTING) or b"UTF8").decode()

    @property
    def codec(self) -> str:
        """Python's name of it."""
        codec = _CODECS.get(self._connection.parameter_status(_SETTING))
        if codec is not None:
            return codec
        name = self.name
        return codec_of(name) or _APPROXIMATE.get(name, UTF8)

    @property
    def is_converted(self) -> bool:
        """Whether the server converts texts of the client."""
        return self._connection.parameter_status(_SETTING) not in _CODECS

    def encode(self, text: str) -> bytes:
        """Encode text for the server.

        Names that the encoding has no characters for, which a client cannot have sent, are spelled
        by their numbers, and so are constants.

        Raises:
            CatalogError: 22P05, there are others that it has none for.
        """
        codec = UTF8 if self.is_own else self.codec
        try:
            return text.encode(codec, "surrogateescape")
        except UnicodeEncodeError:
            spelled = in_ascii(text)
        try:
            return spelled.encode(codec, "surrogateescape")
        except UnicodeEncodeError as error:
            raise CatalogError(
                "a statement of another client encoding has characters without equivalent in"
                f' encoding "{self.name}"',
                sqlstate=sqlstate.UNTRANSLATABLE_CHARACTER,
            ) from error

    def require_encodable(self, texts: Iterable[str]) -> None:
        """Refuse texts that cannot be encoded (22P05)."""
        for text in texts:
            if not text.isascii():
                self.encode(text)

    def decode(self, data: bytes) -> str:
        """Decode text of the server."""
        return data.decode(UTF8 if self.is_own else self.codec, "surrogateescape")


def in_ascii(sql: str) -> str:
    r"""Return a statement whose names and constants have other characters spelled by their numbers.

    >>> print(in_ascii('SELECT "é" AS e, \'é\' AS "t"'))
    SELECT U&"\00e9" AS e, E'\u00e9' AS "t"
    """
    encoded, parts, end = sql.encode("utf-8", "surrogateescape"), [], 0
    for token in tokens_of(encoded):
        if not token.text.isascii() and token.text[0] in _SPELLED:
            start, short, long = _SPELLED[token.text[0]]
            letters = (_letter(letter, short, long) for letter in token.text)
            parts += [
                encoded[end : token.start].decode("utf-8", "surrogateescape"),
                start,
                *letters,
            ]
            end = token.end
    return "".join((*parts, encoded[end:].decode("utf-8", "surrogateescape")))


_SPELLED: Final = {
    '"': ("U&", "\\{:04x}", "\\+{:06x}"),
    "'": ("E", "\\u{:04x}", "\\U{:08x}"),
}
"""How characters are spelled in tokens that begin with one: what is put before, and each."""


def _letter(letter: str, short: str, long: str) -> str:
    if letter == "\\":
        return "\\\\"
    if letter.isascii():
        return letter
    return (short if ord(letter) < 0x10000 else long).format(ord(letter))
