"""Rows are changed, so that what is demanded of them afterwards holds."""

import sqlalchemy as sa
from alembic import op

revision = "r3"
down_revision = "r2"

employees = sa.table(
    "employees", sa.column("id", sa.Integer), sa.column("name"), sa.column("email")
)


def upgrade() -> None:
    op.execute(
        employees.update()
        .where(employees.c.email.is_(None))
        .values(email=sa.func.lower(employees.c.name) + "@example.com")
    )
    op.alter_column("employees", "email", nullable=False)
    op.create_unique_constraint("employees_email_key", "employees", ["email"])


def downgrade() -> None:
    op.drop_constraint("employees_email_key", "employees", type_="unique")
    op.alter_column("employees", "email", nullable=True)
