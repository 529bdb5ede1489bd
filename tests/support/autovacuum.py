"""The gateway's command, whose upkeep looks often, also for files that nobody reads."""

from pgwire_gateway.cli import main
from pgwire_gateway.upkeep import cold_tables, unread_files
from tests.support import attentive, prepared_catalogs, unsynced

PAUSE_S = 1.0
"""Time between two looks for files, and for what is to be compacted."""

if __name__ == "__main__":
    attentive.hurry()
    cold_tables.NAP_S = PAUSE_S
    unread_files.PAUSE_S = PAUSE_S
    unsynced.apply()
    prepared_catalogs.draw_keys()
    raise SystemExit(main())
