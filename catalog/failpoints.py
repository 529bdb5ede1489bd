"""Places in a write where a process can be made to stop, for tests that kill one just there.

Nothing ever stops unless an environment variable names a directory when the process begins: no
client can set it, nor put files there. Whoever makes a file with the name of a failpoint stops the
first thread that reaches it. The file is renamed then, and the thread goes on when it is removed.
"""

import os
import time
from enum import Enum
from pathlib import Path
from typing import Final

VARIABLE: Final = "PGWIRE_GATEWAY_FAILPOINTS"
"""Environment variable with the directory."""

REACHED: Final = ".reached"
"""What is appended to the name of the file when somebody has stopped."""

_LOOK_S: Final = 0.005

_DIRECTORY: Final = os.environ.get(VARIABLE)


class Failpoint(Enum):
    """A phase of a write that is over, while the next one has not begun."""

    PASSED_ON = "passed_on"
    """What a client sent has been passed to PostgreSQL, whose answer has not been read."""
    ANNOUNCED = "announced"
    """The keys that a statement writes, and their table's gate has been passed."""
    THAWED = "thawed"
    """The rows of a statement are hot."""
    RUN = "run"
    """PostgreSQL has run a statement on hot rows, and captured what it has made of them.

    A transaction of that statement alone may have been committed with it.
    """
    CAPTURED = "captured"
    """The rows of an INSERT or COPY are in the tail, or are many."""
    COMPUTED = "computed"
    """Spark has computed the rows of a bulk write, before the table is locked."""
    STAGED = "staged"
    """A segment is written and synced, beside its place."""
    RENAMED = "renamed"
    """It is in its place, where nobody knows of it."""
    PUBLISHED = "published"
    """It is in the list of segments, in a transaction that is not committed."""
    COMMIT_SENT = "commit_sent"
    """COMMIT has been sent, and its answer has not been read."""
    APPEND_WRITTEN = "append_written"
    """Rows for a journal of others are in a file beside its place."""
    APPENDED = "appended"
    """They are in the journal, where everybody sees them, by a transaction not committed."""
    CHECKED = "checked"
    """The rows of a table have been found to fit a new constraint of it."""
    COOLED = "cooled"
    """Upkeep has let hot rows go cold, and writers have not been told."""
    FLUSH_WRITTEN = "flush_written"
    """A tail is in files."""
    FLUSH_PUBLISHED = "flush_published"
    """These are in the list of segments and the tail is shorter, not committed."""
    COMPACTION_PUBLISHED = "compaction_published"
    """Merged segments are in the list instead of others, not committed."""
    MADE_TIERED = "made_tiered"
    """The rows of a resident table have left PostgreSQL, not committed."""
    MADE_RESIDENT = "made_resident"
    """The rows of a tiered table are in PostgreSQL, not committed."""
    FILES_REMOVED = "files_removed"
    """VACUUM has removed files whose segments are still listed as retired."""


def reach(point: Failpoint) -> None:
    """Stop here where that is wanted."""
    if _DIRECTORY is not None:
        _stop(Path(_DIRECTORY), point.value)


def _stop(directory: Path, name: str) -> None:
    stopped = directory / f"{name}{REACHED}"
    try:
        # Of several threads one is the first.
        (directory / name).rename(stopped)
    except FileNotFoundError:
        return
    while stopped.exists():
        time.sleep(_LOOK_S)
