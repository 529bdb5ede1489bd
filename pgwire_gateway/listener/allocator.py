"""Settings of the C library's memory allocator, for a process that encodes batch after batch.

By default glibc returns arrays of more than 128 kB to the system as soon as they are freed, and the
next batch pays for every page anew: a quarter of the time encoding takes. Elsewhere nothing is
done.
"""

import ctypes
from contextlib import suppress
from typing import Final

_SETTINGS: Final = {
    -1: 64 << 20,  # M_TRIM_THRESHOLD: free memory at the top that is kept
    -2: 1 << 20,  # M_TOP_PAD
    -3: 32 << 20,  # M_MMAP_THRESHOLD: size from which blocks are the system's own
}


def keep_freed_memory() -> None:
    """Let the process keep some tens of megabytes it has freed, to use them again."""
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        for setting, value in _SETTINGS.items():
            mallopt(setting, value)
