"""Tokens of a statement, as PostgreSQL's scanner sees them, and pieces of text between them."""

from dataclasses import dataclass

from postgast import PgQueryError, scan
from postgast.pg_query_pb2 import KeywordKind, Token


@dataclass(frozen=True, slots=True)
class ScannedToken:
    """One token; comments are left out."""

    start: int
    """Byte offset in the statement."""
    end: int
    text: str
    depth: int
    """Number of parentheses and brackets around it."""
    is_keyword: bool
    is_reserved: bool = False
    """Whether it is a keyword that names no relation or column unless it is quoted."""

    @property
    def parameter(self) -> int:
        """Number of a `$n` token, 0 for others."""
        return int(self.text[1:]) if self.text[:1] == "$" and self.text[1:].isdigit() else 0

    def is_word(self, *words: str) -> bool:
        """Return True for one of these keywords."""
        return self.is_keyword and self.text.lower() in words


_COMMENTS = frozenset({Token.SQL_COMMENT, Token.C_COMMENT})
_RESERVED = frozenset({KeywordKind.RESERVED_KEYWORD, KeywordKind.TYPE_FUNC_NAME_KEYWORD})


def tokens_of(encoded: bytes) -> list[ScannedToken]:
    """Return the tokens of a statement; none when it cannot be scanned."""
    try:
        scanned = scan(encoded.decode("utf-8", "surrogateescape"))
    except (PgQueryError, UnicodeEncodeError):
        return []
    tokens = []
    depth = 0
    for token in scanned.tokens:
        if token.token in _COMMENTS:
            continue
        text = encoded[token.start : token.end].decode("utf-8", "surrogateescape")
        if text in {")", "]"}:
            depth -= 1
        tokens.append(
            ScannedToken(
                token.start,
                token.end,
                text,
                depth,
                token.keyword_kind != KeywordKind.NO_KEYWORD,
                token.keyword_kind in _RESERVED,
            )
        )
        if text in {"(", "["}:
            depth += 1
    return tokens


@dataclass(frozen=True, slots=True)
class Piece:
    """A statement inside a statement."""

    text: str
    offset: int
    """Characters before it in the outer statement."""


def piece(encoded: bytes, start: int, end: int | None = None) -> Piece:
    """Return a piece of a statement without surrounding blanks."""
    body = encoded[start:end].decode("utf-8", "surrogateescape")
    before = len(encoded[:start].decode("utf-8", "surrogateescape"))
    return Piece(body.strip(), before + len(body) - len(body.lstrip()))


def after_word(text: str, word: str) -> Piece:
    """Return what follows the first of this keyword outside parentheses."""
    encoded = text.encode("utf-8", "surrogateescape")
    for token in tokens_of(encoded):
        if token.depth == 0 and token.is_word(word):
            return piece(encoded, token.end)
    return Piece(text, 0)


def parenthesized(text: str, index: int = 0) -> Piece:
    """Return what the n-th outer pair of parentheses encloses."""
    encoded = text.encode("utf-8", "surrogateescape")
    tokens = tokens_of(encoded)
    opening = [t for t in tokens if t.text == "(" and t.depth == 0]
    closing = [t for t in tokens if t.text == ")" and t.depth == 0]
    if index >= min(len(opening), len(closing)):
        return Piece("", 0)
    return piece(encoded, opening[index].end, closing[index].start)
