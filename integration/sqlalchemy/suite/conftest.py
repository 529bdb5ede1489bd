"""Makes this directory a project with SQLAlchemy's test plugin, like that of any dialect.

It is run by a pytest of its own, never collected by that of the repository.
"""

# ruff: noqa: E402, F403 — the order that SQLAlchemy's documentation of its plugin asks for

import pytest

pytest.register_assert_rewrite("sqlalchemy.testing.assertions")

# isort: split
from sqlalchemy.testing.plugin.pytestplugin import *

# isort: split
from sqlalchemy.dialects.postgresql.provision import post_configure_engine


@post_configure_engine.for_db("postgresql")
def create_no_extensions(url: object, engine: object, follower_ident: object) -> None:
    """Replace the hook that creates citext and hstore, which the server wheel does not hold."""
