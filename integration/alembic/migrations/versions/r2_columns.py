"""More columns, and a table whose primary key consists of foreign keys."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "r2"
down_revision = "r1"


def upgrade() -> None:
    op.add_column("employees", sa.Column("email", sa.String(100)))
    op.add_column(
        "employees",
        sa.Column("hired_on", sa.Date, nullable=False, server_default=sa.func.current_date()),
    )
    op.add_column("employees", sa.Column("settings", postgresql.JSONB))
    op.add_column("departments", sa.Column("labels", postgresql.ARRAY(sa.Text)))
    op.create_table(
        "projects",
        sa.Column("code", sa.String(8), primary_key=True),
        sa.Column("started_at", sa.DateTime),
    )
    op.create_table(
        "assignments",
        sa.Column("employee_id", sa.Integer, primary_key=True),
        sa.Column("project_code", sa.String(8), primary_key=True),
    )
    op.create_foreign_key(
        "assignments_employee_id_fkey",
        "assignments",
        "employees",
        ["employee_id"],
        ["id"],
        ondelete="CASCADE",
    )
    op.create_foreign_key(
        "assignments_project_code_fkey",
        "assignments",
        "projects",
        ["project_code"],
        ["code"],
        onupdate="CASCADE",
    )


def downgrade() -> None:
    op.drop_table("assignments")
    op.drop_table("projects")
    op.drop_column("departments", "labels")
    op.drop_column("employees", "settings")
    op.drop_column("employees", "hired_on")
    op.drop_column("employees", "email")
