"""An enumerated type, and indexes: on an expression, on some rows, made beside other work."""

import sqlalchemy as sa
from alembic import op

revision = "r6"
down_revision = "r5"

status = sa.Enum("active", "left", name="status")


def upgrade() -> None:
    status.create(op.get_bind())
    op.add_column("employees", sa.Column("status", status, nullable=False, server_default="active"))
    op.create_index("employees_lower_name", "employees", [sa.text("lower(name)")])
    with op.get_context().autocommit_block():
        op.create_index(
            "employees_active",
            "employees",
            ["unit_id"],
            postgresql_where=sa.text("status = 'active'::status"),
            postgresql_concurrently=True,
        )


def downgrade() -> None:
    op.drop_index("employees_active", "employees")
    op.drop_index("employees_lower_name", "employees")
    op.drop_column("employees", "status")
    status.drop(op.get_bind())
