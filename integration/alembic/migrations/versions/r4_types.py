"""Types of columns change, with and without an expression for the values."""

import sqlalchemy as sa
from alembic import op

revision = "r4"
down_revision = "r3"


def upgrade() -> None:
    op.alter_column("employees", "name", type_=sa.Text, existing_type=sa.String(40))
    op.alter_column(
        "departments",
        "budget",
        type_=sa.Numeric(12, 2),
        existing_type=sa.Integer,
        postgresql_using="budget * 1.00",
    )
    op.create_check_constraint("departments_budget_check", "departments", "budget >= 0")


def downgrade() -> None:
    op.drop_constraint("departments_budget_check", "departments", type_="check")
    op.alter_column(
        "departments",
        "budget",
        type_=sa.Integer,
        existing_type=sa.Numeric(12, 2),
        postgresql_using="budget::integer",
    )
    op.alter_column("employees", "name", type_=sa.String(40), existing_type=sa.Text)
