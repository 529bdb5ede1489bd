"""How the JVMs of tests are started."""

import sys
from pathlib import Path

QUICK_COMPILER = "-XX:TieredStopAtLevel=1"
"""Leaves out the compiler that optimises.

A JVM lives for minutes here and mostly plans: what the compiler costs it does not get back, and it
would compete with the tests of the other process for the cores.
"""

ONE_COLLECTOR = "-XX:+UseSerialGC"
"""Collects in one thread, for the same reason."""

CLASS_ARCHIVE = Path(sys.prefix, "spark-classes.jsa")
"""Spark's classes as a JVM maps them into memory, made by ``tests.support.class_archive``.

A JVM that has none, or one of another Java or other archives, loads and verifies each class.
"""

ROOM_FOR_CODE = "-XX:ReservedCodeCacheSize=240m"
"""As with all compilers; the default for the quick one alone has code thrown away and made anew."""

JAVA_OPTIONS = " ".join(
    [
        QUICK_COMPILER,
        ONE_COLLECTOR,
        ROOM_FOR_CODE,
        *([f"-XX:SharedArchiveFile={CLASS_ARCHIVE}"] if CLASS_ARCHIVE.exists() else []),
    ]
)
"""All of that."""
