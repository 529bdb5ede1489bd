"""Files of text, looked at before Spark reads them: it replaces, or leaves out, what is wrong."""

import codecs
import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NoReturn

import pyarrow as pa

from catalog import sqlstate as codes
from catalog.errors import GatewayError

_CHUNK: Final = 1 << 20


def require_text(form: str, files: Iterable[Path], shown: str) -> None:
    """Refuse CSV and JSON that are not UTF-8, and lines that are not one value of JSON.

    Raises:
        GatewayError: 22021 or 22P04.
        OSError: Storage failed.
    """
    for file in files if form in {"csv", "json"} else ():
        try:
            if form == "csv":
                _require_utf8(file)
            else:
                _require_values(file)
        except UnicodeDecodeError as error:
            raise GatewayError(
                f'invalid byte sequence for encoding "UTF8" in "{shown}"',
                sqlstate=codes.CHARACTER_NOT_IN_REPERTOIRE,
            ) from error
        except ValueError as error:
            raise GatewayError(
                f'could not read "{shown}" as json',
                sqlstate=codes.BAD_COPY_FILE_FORMAT,
                hint="Each line must be one value of JSON.",
            ) from error


def _require_utf8(file: Path) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")()
    with pa.input_stream(str(file), compression="detect") as stream:
        while chunk := stream.read(_CHUNK):
            decoder.decode(chunk)
    decoder.decode(b"", final=True)


def _require_values(file: Path) -> None:
    with pa.input_stream(str(file), compression="detect") as stream:
        for line in io.BufferedReader(stream, _CHUNK):
            text = line.decode("utf-8").strip()
            if text:
                json.loads(text, parse_constant=_no_constant)


def _no_constant(text: str) -> NoReturn:
    raise ValueError(text)
