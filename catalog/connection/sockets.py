"""Sending and receiving at once, without handing over the interpreter.

Python's own sockets let other threads run during each call, and a thread that computes gives the
interpreter back only after a whole switch interval. That is right for waiting and wrong for a call
that takes microseconds: passing a statement through would pay the interval at each of them.
"""

import ctypes
import errno
import os
from typing import Final

# PyDLL, unlike CDLL, keeps the interpreter during the call.
_LIBRARY: Final = ctypes.PyDLL(None, use_errno=True)

_send: Final = _LIBRARY.send
_send.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int)
_send.restype = ctypes.c_ssize_t

_receive: Final = _LIBRARY.recv
_receive.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_receive.restype = ctypes.c_ssize_t

_MSG_PEEK: Final = 0x2
_MSG_DONTWAIT: Final = 0x40
_MSG_NOSIGNAL: Final = 0x4000
"""Flags of Linux's bits/socket.h."""

_LATER: Final = frozenset({errno.EAGAIN, errno.EWOULDBLOCK, errno.EINTR})


class Buffer:
    """Memory that is received into."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._data = bytearray(size)
        self._view = memoryview(self._data)
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._data))

    def receive(self, descriptor: int) -> bytes | None:
        """Return what has arrived, empty at the end; None when nothing has.

        Raises:
            OSError: the connection is broken.
        """
        return self._receive(descriptor, _MSG_DONTWAIT)

    def peek(self, descriptor: int) -> bytes | None:
        """Return the same, and leave it to be received.

        Raises:
            OSError: the connection is broken.
        """
        return self._receive(descriptor, _MSG_DONTWAIT | _MSG_PEEK)

    def _receive(self, descriptor: int, flags: int) -> bytes | None:
        size = _receive(descriptor, self._address, self._size, flags)
        if size < 0:
            _require_patience()
            return None
        return bytes(self._view[:size])


def send(descriptor: int, data: bytes) -> int:
    """Send as much as can be sent at once; return how many bytes that was.

    Raises:
        OSError: the connection is broken.
    """
    sent: int = _send(descriptor, data, len(data), _MSG_DONTWAIT | _MSG_NOSIGNAL)
    if sent < 0:
        _require_patience()
        return 0
    return sent


def _require_patience() -> None:
    """Raise what went wrong unless it is only that one has to wait."""
    number = ctypes.get_errno()
    if number not in _LATER:
        raise OSError(number, os.strerror(number))
