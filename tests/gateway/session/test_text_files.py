"""Files of text that Spark would change, or leave something out of, are refused."""

import gzip
from pathlib import Path

import pytest

from catalog.errors import GatewayError
from pgwire_gateway.session.text_files import require_text


@pytest.mark.parametrize(
    ("form", "content", "sqlstate"),
    [
        ("csv", "a,b\n1,é\n".encode(), None),
        ("csv", b"a\n\xe9\n", "22021"),
        ("csv", "é".encode()[:1], "22021"),
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
    file = tmp_path / (f"rows.{form}.gz" if packed else f"rows.{form}")
    file.write_bytes(gzip.compress(content) if packed else content)
    if sqlstate is None:
        require_text(form, [file], "shown")
        return
    with pytest.raises(GatewayError, match="shown") as raised:
        require_text(form, [file], "shown")
    assert raised.value.sqlstate == sqlstate
