"""Codecs convert as PostgreSQL does, character by character."""

from collections.abc import Iterator

import psycopg
import pytest

from catalog.api import Catalog
from catalog.pg import generate
from catalog.pg.encodings import MULTIBYTE, SINGLE_BYTE
from catalog.pg.text_codecs import ascii_equivalents, codec_of, encoding_of

pytestmark = pytest.mark.catalog

ENCODINGS = [*SINGLE_BYTE, *MULTIBYTE]

FEW = ["LATIN9", "WIN1252", "SJIS"]
"""Those that are looked at whenever tests run."""

OTHERS = [chr(code) for code in (0x10000, 0x1F600, 0x20000, 0x2A6D6, 0x10FFFF)]
"""Characters beyond the Basic Multilingual Plane."""


@pytest.fixture(scope="module")
def connection(catalog: Catalog) -> Iterator[psycopg.Connection]:
    session = catalog.admin("postgres")
    rows = session.execute(
        "SELECT current_setting('unix_socket_directories'), current_setting('port'), current_user"
    ).rows
    host, port, user = (value.decode() for row in rows for value in row if value is not None)
    session.close()
    conninfo = psycopg.conninfo.make_conninfo(host=host, port=port, user=user, dbname="postgres")
    with psycopg.connect(conninfo) as opened:
        opened.execute(generate._CONVERTERS.encode())
        yield opened


@pytest.mark.parametrize(
    "encoding",
    [one if one in FEW else pytest.param(one, marks=pytest.mark.exhaustive) for one in ENCODINGS],
)
def test_codecs_convert_as_postgresql_does(connection: psycopg.Connection, encoding: str) -> None:
    codec = codec_of(encoding)
    assert codec is not None
    characters = [*map(chr, range(1, 128)), *generate.CHARACTERS, *OTHERS]
    encoded = generate.octets(connection, encoding, characters)
    assert {one: tried(one.encode, codec) for one in characters} == encoded
    found = [bytes([byte]) for byte in range(1, 128)] + generate.sequences(encoding)
    found += [data for data in encoded.values() if data is not None and data not in found[:255]]
    decoded = generate.letters(connection, encoding, found)
    assert {data: tried(data.decode, codec) for data in decoded} == decoded


def tried(convert, codec):
    try:
        return convert(codec)
    except UnicodeError:
        return None


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_texts_come_back(encoding: str) -> None:
    codec = codec_of(encoding) or ""
    text = "".join(
        letter
        for letter in ["a", "\n", *generate.CHARACTERS]
        if (data := tried(letter.encode, codec)) and tried(data.decode, codec) == letter
    )
    assert len(text) > 80
    assert text.encode(codec).decode(codec) == text
    assert encoding_of(codec) == encoding


@pytest.mark.parametrize("encoding", ["LATIN1", "SJIS", "UHC"])
def test_bytes_that_are_no_text_can_be_kept(encoding: str) -> None:
    codec, data = codec_of(encoding) or "", b"a\xff\xfeb\x80"
    assert data.decode(codec, "surrogateescape").encode(codec, "surrogateescape") == data


def test_errors_tell_where_they_are() -> None:
    with pytest.raises(UnicodeEncodeError) as caught:
        "日本\ue000語".encode(codec_of("SJIS") or "")
    assert (caught.value.start, caught.value.end) == (2, 3)
    with pytest.raises(UnicodeEncodeError) as caught:
        "¥日é".encode(codec_of("SJIS") or "")
    assert (caught.value.start, caught.value.object) == (2, "¥日é")


@pytest.mark.parametrize("encoding", ["UTF8", "SQL_ASCII"])
def test_what_is_not_converted_has_pythons_codec(encoding: str) -> None:
    assert codec_of(encoding) == "utf-8"


@pytest.mark.parametrize("encoding", ["EUC_KR", "JOHAB", "MULE_INTERNAL", "NONE"])
def test_where_no_codec_agrees_there_is_none(encoding: str) -> None:
    assert codec_of(encoding) is None


def test_no_codec_of_ours_is_found_by_another_name() -> None:
    with pytest.raises(LookupError):
        "a".encode("postgres_none")


def test_characters_may_be_sent_as_some_of_ascii() -> None:
    assert ascii_equivalents("SJIS") == {"¥": "\\", "‾": "~"}
    assert ascii_equivalents("LATIN1") == {}
