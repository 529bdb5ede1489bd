"""The conversation of one connection as lines of text, in the format of libpq's PQtrace.

A line has direction (``F`` frontend, ``B`` backend), length, message and fields, parted by tabs. In
regress mode what varies from run to run is hidden: OIDs, process ids, bulk data, source locations.
Unlike libpq's, a trace never shows passwords, SASL responses or secret keys, being the log of a
server and not of the one client who knows them anyway; and a message is always one line.
"""

import string
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TextIO

from typing_extensions import override

from pgwire_gateway.messages import (
    BackendFrameReader,
    BackendMessage,
    DiagnosticField,
    DiagnosticMessage,
    FrontendMessage,
    Message,
    Writer,
)

_SOURCE_LOCATION = frozenset((DiagnosticField.FILE, DiagnosticField.LINE, DiagnosticField.ROUTINE))

_PRINTABLE = frozenset(string.printable.encode("ascii")) - frozenset(b"\t\n\r\v\f")

_CONTROL_CHARACTERS = {code: f"\\x{code:02x}" for code in (*range(32), 127)}

_LENGTH_WORD_BYTES = 4


def _local_time() -> datetime:
    return datetime.now(tz=UTC).astimezone()


class MessageTrace:
    """Writes a line for each message of a connection."""

    def __init__(
        self,
        stream: TextIO,
        *,
        regress: bool = False,
        timestamps: bool = True,
        clock: Callable[[], datetime] = _local_time,
    ) -> None:
        """Write to ``stream``.

        Args:
            stream: Where the lines go.
            regress: Hide what varies from run to run (PQTRACE_REGRESS_MODE).
            timestamps: Begin each line with the time (not PQTRACE_SUPPRESS_TIMESTAMPS).
            clock: What time it is.
        """
        self._stream = stream
        self._regress = regress
        self._timestamps = timestamps
        self._clock = clock

    def frontend(self, message: FrontendMessage) -> None:
        """Write the line of a message received."""
        self._write("F", message)

    def backend(self, message: BackendMessage) -> None:
        """Write the line of a message sent."""
        self._write("B", message)

    def backend_bytes(self, data: bytes) -> None:
        """Write the lines of whole messages sent that were never values."""
        reader = BackendFrameReader()
        reader.feed(data)
        while (message := reader.next_message()) is not None:
            self._write("B", message)

    def encryption_answer(self, response: str, answer: bytes) -> None:
        """Write the line of the one byte that answers SSLRequest or GSSENCRequest.

        Args:
            response: ``SSLResponse`` or ``GSSENCResponse``.
            answer: The byte.
        """
        self._write_line(f"B\t1\t{response}\t {answer.decode('ascii')}")

    def _write(self, direction: str, message: Message) -> None:
        writer = _TraceWriter(regress=self._regress)
        message.write_fields(writer)
        # Source locations change with every version of the server, and with them the length.
        hidden = self._regress and isinstance(message, DiagnosticMessage)
        length = "NN" if hidden else str(len(writer.getvalue()) + _LENGTH_WORD_BYTES)
        name = type(message).__name__
        fields = writer.trace()
        self._write_line("\t".join((direction, length, name, *([fields] if fields else []))))

    def _write_line(self, line: str) -> None:
        moment = f"{self._clock():%Y-%m-%d %H:%M:%S.%f}\t" if self._timestamps else ""
        self._stream.write(f"{moment}{line}\n")


class _TraceWriter(Writer):
    """Writes a body and, as it goes, the text of its fields."""

    def __init__(self, *, regress: bool) -> None:
        super().__init__()
        self._regress = regress
        self._trace: list[str] = []

    def trace(self) -> str:
        """Return the fields written so far, each after a space."""
        return "".join(self._trace)

    def _show(self, text: str) -> None:
        self._trace.append(f" {text}")

    @override
    def byte(self, value: bytes) -> None:
        super().byte(value)
        self._show(_visible(value))

    @override
    def int16(self, value: int) -> None:
        super().int16(value)
        # Unsigned, as libpq shows it: a type size of -1 is 65535.
        self._show(str(value & 0xFFFF))

    @override
    def count(self, value: int) -> None:
        super().count(value)
        self._show(str(value))

    @override
    def int32(self, value: int) -> None:
        super().int32(value)
        self._show(str(value))

    @override
    def oid(self, value: int) -> None:
        super().oid(value)
        self._show("NNNN" if self._regress else str(value))

    @override
    def process_id(self, value: int) -> None:
        super().process_id(value)
        self._show("NNNN" if self._regress else str(value))

    @override
    def secret_key(self, value: bytes) -> None:
        super().secret_key(value)
        self._show("NNNN")

    @override
    def credential(self, value: bytes) -> None:
        super().credential(value)
        self._show("'BBBB'")

    @override
    def opaque(self, value: bytes) -> None:
        super().opaque(value)
        self._show("'BBBB'" if self._regress else f"'{_visible(value)}'")

    @override
    def value(self, value: bytes | None) -> None:
        super().value(value)
        if value is None:
            self._show("-1")
        else:
            self._show(f"{len(value)} '{_visible(value)}'")

    @override
    def string(self, value: str) -> None:
        super().string(value)
        self._show(_quoted(value))

    @override
    def password(self, value: str) -> None:
        super().password(value)
        self._show('"SSSS"')

    @override
    def diagnostic(self, code: str, value: str) -> None:
        super().diagnostic(code, value)
        hidden = self._regress and code in _SOURCE_LOCATION
        self._show(f'{code} "SSSS"' if hidden else f"{code} {_quoted(value)}")


def _visible(raw: bytes) -> str:
    return "".join(chr(byte) if byte in _PRINTABLE else f"\\x{byte:02x}" for byte in raw)


def _quoted(text: str) -> str:
    # A line for each message, whatever a client sends: libpq would break the line here.
    return f'"{text.translate(_CONTROL_CHARACTERS)}"'
