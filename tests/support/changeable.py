"""The gateway's command, with upkeep that lets no row stay hot.

``python -m tests.support.changeable serve …``: upkeep looks at tables all the time, and goes on to
ask for their lock however often others did not make room.
"""

from pgwire_gateway.cli import main
from pgwire_gateway.upkeep import hot_tables
from tests.support import restless

if __name__ == "__main__":
    restless.hurry()
    hot_tables.LONGEST_PAUSE_S = 1.0
    raise SystemExit(main())
