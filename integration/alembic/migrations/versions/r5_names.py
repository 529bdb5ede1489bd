"""A table, a column and their constraints get other names."""

from alembic import op

revision = "r5"
down_revision = "r4"

TABLE_CONSTRAINTS = ("pkey", "name_key", "budget_check")


def upgrade() -> None:
    op.rename_table("departments", "units")
    for end in TABLE_CONSTRAINTS:
        op.execute(f"ALTER TABLE units RENAME CONSTRAINT departments_{end} TO units_{end}")
    op.execute("ALTER SEQUENCE departments_id_seq RENAME TO units_id_seq")
    op.alter_column("employees", "department_id", new_column_name="unit_id")
    op.execute(
        "ALTER TABLE employees"
        " RENAME CONSTRAINT employees_department_id_fkey TO employees_unit_id_fkey"
    )
    op.create_table_comment("units", "once called departments")


def downgrade() -> None:
    op.drop_table_comment("units")
    op.execute(
        "ALTER TABLE employees"
        " RENAME CONSTRAINT employees_unit_id_fkey TO employees_department_id_fkey"
    )
    op.alter_column("employees", "unit_id", new_column_name="department_id")
    op.execute("ALTER SEQUENCE units_id_seq RENAME TO departments_id_seq")
    for end in TABLE_CONSTRAINTS:
        op.execute(f"ALTER TABLE units RENAME CONSTRAINT units_{end} TO departments_{end}")
    op.rename_table("units", "departments")
