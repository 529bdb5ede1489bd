"""Cancel requests: process id and secret key → the statement that runs under them.

Follows "Canceling Requests in Progress" of PostgreSQL's protocol chapter.
"""

import hmac
import secrets
import threading
from typing import Protocol


class Cancellable(Protocol):
    """Something whose running statement can be stopped from another thread."""

    def cancel(self) -> None:
        """Stop the running statement, if any; the session stays."""


class CancelRegistry:
    """The keys handed out in BackendKeyData and what they stop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[int, tuple[bytes, Cancellable]] = {}

    def add(self, process_id: int, target: Cancellable, key_bytes: int = 4) -> bytes:
        """Register a session and return its secret key (longer with protocol 3.2)."""
        secret_key = secrets.token_bytes(key_bytes)
        with self._lock:
            self._entries[process_id] = (secret_key, target)
        return secret_key

    def remove(self, process_id: int) -> None:
        """Forget a session that ended."""
        with self._lock:
            self._entries.pop(process_id, None)

    def cancel(self, process_id: int, secret_key: bytes) -> bool:
        """Stop the statement of the session with this key; False when no session has it."""
        with self._lock:
            entry = self._entries.get(process_id)
        if entry is None or not hmac.compare_digest(entry[0], secret_key):
            return False
        entry[1].cancel()
        return True
