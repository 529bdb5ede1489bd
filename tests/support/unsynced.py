"""PostgreSQL servers of tests that do not wait for the disk.

Tests end processes, not the machine: what the operating system has been given outlives them. A
server starts in half the time then, drops a database in a tenth of it and commits a row in a
twentieth. Tests of crashes start their gateways with the settings that users have.
"""

from catalog.server import embedded


def apply() -> None:
    """Let the embedded servers that this process starts leave it to the system when to write."""
    embedded._SETTINGS["fsync"] = "off"
    if "--no-sync" not in embedded._INITDB_OPTIONS:
        embedded._INITDB_OPTIONS.append("--no-sync")
