"""Files of text that Spark would change, or leave something out of, are refused."""

import gzip
from pathlib import Path

import pytest

from catalog.errors import GatewayError
from pgwire_gateway.files.text_files import KnownFiles, require_text
from pgwire_gateway.spark import csv_files


def refusal(tmp_path: Path, form: str, content: bytes, name: str = "") -> GatewayError:
    file = tmp_path / (name or f"rows.{form}")
    file.write_bytes(content)
    with pytest.raises(GatewayError) as raised:
        require_text(form, [file])
    return raised.value


@pytest.mark.parametrize(
    ("form", "content", "sqlstate"),
    [
        ("csv", "a,b\n1,é\n".encode(), None),
        ("csv", b"a\n\xe9\n", "22021"),
        ("csv", b"\xe9\n1\n", "22021"),
        ("csv", "é".encode()[:1], "22021"),
        ("csv", b"a\n\0x\n", "22021"),
        ("json", b'{"a": 1}\n\n{"a": [null, 2.5]}', None),
        ("json", b'{"a": 1} {"a": 2}\n', "22P04"),
        ("json", b'{"a": 3}xx\n', "22P04"),
        ("json", b'{"a": NaN}\n', "22P04"),
        ("json", b'{"a": "\xe9"}\n', "22021"),
        ("parquet", b"\xe9", None),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_what_is_no_text_is_refused(
    tmp_path: Path, form: str, content: bytes, sqlstate: str | None, packed: bool
) -> None:
    name = f"rows.{form}.gz" if packed else f"rows.{form}"
    content = gzip.compress(content) if packed else content
    if sqlstate is None:
        (tmp_path / name).write_bytes(content)
        require_text(form, [tmp_path / name])
        return
    error = refusal(tmp_path, form, content, name)
    assert error.sqlstate == sqlstate
    assert f'ile "{name}".' in str(error.detail)


LINES = {
    "a line end that differs": (b"a,b\n1,2\r\n", "22P04", "unquoted carriage return found in data"),
    "a carriage return": (b"a,b\n1\r,2\n", "22P04", "unquoted carriage return found in data"),
    "one at the end": (b"a\r\n1\r\n2\r", "22P04", "unquoted carriage return found in data"),
    "a newline": (b"a,b\r\n1,2\n", "22P04", "unquoted newline found in data"),
    "a newline after returns": (b"a,b\r1,2\n", "22P04", "unquoted newline found in data"),
    "an open quote": (b'a,b\n1,"2\n', "22P04", "unterminated CSV quoted field"),
    "an open quote at the end": (b'a,b\n1,"2""', "22P04", "unterminated CSV quoted field"),
    "too few values": (b"a,b\n1\n", "22P04", 'missing data for column "b"'),
    "too few at the end": (b"a,b,c\n1,2", "22P04", 'missing data for column "c"'),
    "too many values": (b'a,b\n1,",",\n', "22P04", "extra data after last expected column"),
    "a blank line": (b"a,b\n\n1,2\n", "22P04", 'missing data for column "b"'),
    "a blank line of one column": (b"a\n\n1\n", "0A000", "blank lines in files of one column"),
    "one with returns": (b"a\r\n1\r\n\r\n", "0A000", "blank lines in files of one column"),
    "one of returns": (b"a\r\r1\r", "0A000", "blank lines in files of one column"),
    "text before a quote": (b'a,b\n1,x"y"\n', "0A000", "quotes within values"),
    "text after a quote": (b'a,b\n1,"x" \n', "0A000", "quotes within values"),
    "an escaped quote": (b'a,b\n1,"x\\"y"\n', "0A000", "quotes within values"),
    "a column without name": (b"a,,b\n", "22P04", "column 2 has no name in the header"),
    "no header": (b"\na\n", "22P04", "column 1 has no name in the header"),
    "a column twice": (b"a,b,a\n", "42701", 'column "a" specified more than once'),
}


@pytest.mark.parametrize("chunk", [3, 4, 5, 1 << 20])
@pytest.mark.parametrize("name", LINES)
def test_lines_that_spark_would_misread_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, chunk: int
) -> None:
    monkeypatch.setattr(csv_files, "_CHUNK", chunk)
    content, sqlstate, message = LINES[name]
    error = refusal(tmp_path, "csv", content)
    assert error.sqlstate == sqlstate
    assert error.message.removesuffix(" are not supported") == message


@pytest.mark.parametrize("chunk", [3, 4, 5, 1 << 20])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_that_spark_reads_well_are_not_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, chunk: int
) -> None:
    monkeypatch.setattr(csv_files, "_CHUNK", chunk)
    lines = ['"a\r\n""",b', '"""x""\r",', '"\n\n\r\n",""', ",", '" , ", y ', '"",""""']
    for text in (end.join(lines), end.join(lines) + end, "\ufeff" + end.join(lines)):
        file = tmp_path / "rows.csv"
        file.write_bytes(text.encode())
        require_text("csv", [file])
        assert csv_files.header_of(file) == csv_files.Header(('a\r\n"', "b"), end)
    (tmp_path / "one.csv").write_bytes(f'a{end}1{end}""{end} {end}'.encode())
    require_text("csv", [tmp_path / "one.csv"])


def test_errors_name_the_line(tmp_path: Path) -> None:
    error = refusal(tmp_path, "csv", b'a,b\n1,"\n\n"\n2,3\n4\n')
    assert error.detail == 'Line 6 of file "rows.csv".'
    error = refusal(tmp_path, "json", b'{"a": 1}\n\n[]\n')
    assert error.detail == 'Line 3 of file "rows.json".'


def test_files_have_the_same_header(tmp_path: Path) -> None:
    contents = {"1.csv": b"a,b\n", "2.csv": b"", "3.csv": b'"a",b\r\n', "4.csv": b"b,a\n"}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    files = sorted(tmp_path.iterdir())
    require_text("csv", files[:3])
    with pytest.raises(GatewayError, match='field 1: got "b", expected "a"') as raised:
        require_text("csv", files)
    assert (raised.value.sqlstate, raised.value.detail) == ("22P04", 'Line 1 of file "4.csv".')
    (tmp_path / "4.csv").write_bytes(b"a\n")
    with pytest.raises(GatewayError, match="got 1, expected 2"):
        require_text("csv", files)


@pytest.mark.parametrize(
    ("content", "sqlstate"),
    [
        (b'{"a": 1, "b": 2, "a": 3}', "22030"),
        (b'{"a": {"b": 1, "b": null}}', "22030"),
        (b"[]", "22P04"),
        (b'[{"a": 1}, {"a": 2}]', "22P04"),
        (b"5", "22P04"),
        (b'"x"', "22P04"),
        (b"null", "22P04"),
        (b'{"a": 1}\r{"a": 2}', "22P04"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "22P04"),
        (b'{"a": "x\\u0000"}', "22P05"),
        (b'{"a\\\\\\u0000": 1}', "22P05"),
        (b'{"a": "\\ud800x"}', "22P02"),
        (b'{"a": ["\\uDC00\\uD800"]}', "22P02"),
        (b'{"a": 1e400}', "22003"),
        (b'{"a": [-1e400]}', "22003"),
        (b'{"a": 1e-400}', "22003"),
        (b'{"a": ' + b"9" * 39 + b"}", "22003"),
        (b'{"a": 9007199254740993}\n{"a": 0.5}', "0A000"),
    ],
)
def test_json_that_spark_would_change_is_refused(
    tmp_path: Path, content: bytes, sqlstate: str
) -> None:
    assert refusal(tmp_path, "json", content).sqlstate == sqlstate


def test_json_that_spark_reads_well_is_not_refused(tmp_path: Path) -> None:
    (tmp_path / "1.json").write_bytes(
        b'{"a": "\\u00e9\\ud83d\\ude00\\\\u0000\\\\ud800", "b": 9007199254740993}\r\n\r\n'
        b' {"b": 0e5, "c": -0.0, "d": ' + b"9" * 38 + b"}\n{}\n \n"
    )
    with pytest.raises(GatewayError, match="9007199254740993"):
        require_text("json", [tmp_path / "1.json"])
    (tmp_path / "1.json").write_bytes(
        (tmp_path / "1.json").read_bytes().replace(b"9007199254740993", b"9007199254740992")
    )
    require_text("json", [tmp_path / "1.json"])


@pytest.mark.parametrize("suffix", ["lz4", "snappy", "deflate"])
def test_compressions_that_hadoop_has_its_own_forms_of_are_refused(
    tmp_path: Path, suffix: str
) -> None:
    assert refusal(tmp_path, "csv", b"a\n1\n", f"rows.csv.{suffix}").sqlstate == "0A000"


def test_files_with_known_columns_are_looked_at_again_when_they_change(tmp_path: Path) -> None:
    file, known = tmp_path / "rows.csv", KnownFiles()
    file.write_bytes(b"a,b\n1,2\n")
    known.require_text("csv", file, ["a", "b"])
    known.require_text("csv", file, ["a", "b"])
    with pytest.raises(GatewayError, match="column name mismatch"):
        known.require_text("csv", file, ["a", "c"])
    file.write_bytes(b"a,b\n1,2\n3\n")
    for _ in range(2):
        with pytest.raises(GatewayError, match='missing data for column "b"'):
            known.require_text("csv", file, ["a", "b"])
    numbers = tmp_path / "rows.json"
    numbers.write_bytes(b'{"a": 1e400}\n')
    known.require_text("json", numbers, ["a"])
