"""What Alembic runs before the migrations: each of them in a transaction of its own."""

from alembic import context
from models import Base
from sqlalchemy import engine_from_config

OPTIONS = {
    "target_metadata": Base.metadata,
    "compare_server_default": True,
    "transaction_per_migration": True,
}

if context.is_offline_mode():
    context.configure(dialect_name="postgresql", literal_binds=True, **OPTIONS)
    with context.begin_transaction():
        context.run_migrations()
else:
    section = context.config.get_section(context.config.config_ini_section, {})
    with engine_from_config(section).connect() as connection:
        context.configure(connection=connection, **OPTIONS)
        with context.begin_transaction():
            context.run_migrations()
