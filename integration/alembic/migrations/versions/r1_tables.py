"""Tables that refer to each other and to themselves."""

import sqlalchemy as sa
from alembic import op

revision = "r1"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "departments",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(40), nullable=False),
        sa.Column("budget", sa.Integer, nullable=False, server_default="0"),
        sa.UniqueConstraint("name", name="departments_name_key"),
    )
    op.create_table(
        "employees",
        sa.Column("id", sa.Integer, sa.Identity(always=False), primary_key=True),
        sa.Column("name", sa.String(40), nullable=False),
        sa.Column("department_id", sa.Integer),
        sa.Column("manager_id", sa.Integer),
        sa.ForeignKeyConstraint(
            ["department_id"],
            ["departments.id"],
            name="employees_department_id_fkey",
            ondelete="SET NULL",
        ),
        sa.ForeignKeyConstraint(["manager_id"], ["employees.id"], name="employees_manager_id_fkey"),
    )


def downgrade() -> None:
    op.drop_table("employees")
    op.drop_table("departments")
