"""The compliance suite that SQLAlchemy ships for dialects of third parties."""

from sqlalchemy.testing.suite import *  # noqa: F403
