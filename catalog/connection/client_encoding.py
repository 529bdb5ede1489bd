"""The encoding in which PostgreSQL and libpq take and give texts of a session."""

from typing import Final

from psycopg.pq.abc import PGconn

_CODECS: Final = {
    "UTF8": "utf-8",
    "SQL_ASCII": "utf-8",
    "LATIN1": "iso8859-1",
    "LATIN2": "iso8859-2",
    "LATIN9": "iso8859-15",
    "WIN1250": "cp1250",
    "WIN1251": "cp1251",
    "WIN1252": "cp1252",
    "EUC_JP": "euc_jp",
    "SJIS": "shift_jis",
    "EUC_KR": "euc_kr",
    "GBK": "gbk",
    "BIG5": "big5",
}


class ClientEncoding:
    """The setting ``client_encoding`` of one connection, as it is at each moment."""

    def __init__(self, connection: PGconn) -> None:
        self._connection = connection

    @property
    def codec(self) -> str:
        """Python's name of it."""
        name = self._connection.parameter_status(b"client_encoding") or b"UTF8"
        return _CODECS.get(name.decode(), "utf-8")

    def encode(self, text: str) -> bytes:
        """Encode text for the server."""
        return text.encode(self.codec, "surrogateescape")

    def decode(self, data: bytes) -> str:
        """Decode text of the server."""
        return data.decode(self.codec, "surrogateescape")
