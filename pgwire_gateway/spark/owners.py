"""Processes that write below one directory: each has a directory of its own, while it lives.

Whether one lives is told by a lock that the operating system lets go of when it ends, however it
does. So no clock decides whose files are abandoned. It must not know what the files are.
"""

import fcntl
import os
import shutil
import threading
import uuid
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_LOCK: Final = ".lock"


@dataclass(frozen=True, slots=True)
class Owner:
    """A process that writes, or has written."""

    directory: Path
    """What is its own."""

    @property
    def lock(self) -> Path:
        """The file that it has locked as long as it lives; it is there before the directory."""
        return self.directory.with_name(f"{self.directory.name}{_LOCK}")

    @contextmanager
    def inherited(self) -> Iterator[bool]:
        """Tell whether it lives no more; nobody else inherits from it while the context lasts."""
        try:
            descriptor = os.open(self.lock, os.O_RDWR)
        except FileNotFoundError:
            # Tasks that ended late have made the directory anew.
            yield True
            return
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True
        finally:
            os.close(descriptor)

    def remove(self) -> None:
        """Remove its directory, and its lock at last; part of `inherited`."""
        shutil.rmtree(self.directory, ignore_errors=True)
        if not self.directory.exists():
            self.lock.unlink(missing_ok=True)


class Owners:
    """All that write below a directory; this process is among them once it has written."""

    def __init__(self, root: Path) -> None:
        """Nothing is written yet."""
        self._root = root
        self._lock = threading.Lock()
        self._own: Owner | None = None

    @property
    def own(self) -> Path | None:
        """The directory of this process, if it has one."""
        return self._own.directory if self._own is not None else None

    def begin(self) -> Path:
        """Return the directory of this process, which is made when it is missing."""
        with self._lock:
            if self._own is None:
                self._own, descriptor = _begun(self._root)
                # Not at exit: threads may go on writing, and publishing, until the process is gone.
                weakref.finalize(self, os.close, descriptor).atexit = False
            self._own.directory.mkdir(parents=True, exist_ok=True)
            return self._own.directory

    def others(self) -> list[Owner]:
        """Return all others, whether they live or not."""
        try:
            with os.scandir(self._root) as entries:
                # Other files are not ours.
                found = [e.name for e in entries if e.name.endswith(_LOCK) or e.is_dir()]
        except FileNotFoundError:
            return []
        owners = [
            Owner(self._root / name) for name in sorted({n.removesuffix(_LOCK) for n in found})
        ]
        return [owner for owner in owners if owner != self._own]


def _begun(root: Path) -> tuple[Owner, int]:
    """Return an owner that lives as long as a file is open, which is returned, too."""
    while True:
        root.mkdir(parents=True, exist_ok=True)
        owner = Owner(root / uuid.uuid4().hex)
        descriptor = os.open(owner.lock, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            with suppress(FileNotFoundError):
                # Somebody may have taken it for one of the dead, and removed it, before it was
                # locked.
                if owner.lock.stat().st_ino == os.fstat(descriptor).st_ino:
                    return owner, descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
