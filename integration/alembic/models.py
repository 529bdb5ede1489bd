"""The schema that the chain of migrations ends with."""

from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum

from sqlalchemy import (
    CheckConstraint,
    Enum,
    ForeignKey,
    Identity,
    Index,
    Numeric,
    String,
    Text,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    """Whatever the migrations make."""


class Status(StrEnum):
    """An enumerated type of the server."""

    ACTIVE = "active"
    LEFT = "left"


class Unit(Base):
    __tablename__ = "units"
    __table_args__ = (
        UniqueConstraint("name", name="units_name_key"),
        CheckConstraint("budget >= 0", name="units_budget_check"),
        {"comment": "once called departments"},
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(40))
    budget: Mapped[Decimal] = mapped_column(Numeric(12, 2), server_default=text("0"))
    labels: Mapped[list[str] | None] = mapped_column(ARRAY(Text))


class Employee(Base):
    __tablename__ = "employees"
    __table_args__ = (
        UniqueConstraint("email", name="employees_email_key"),
        Index("employees_lower_name", text("lower(name)")),
        Index("employees_active", "unit_id", postgresql_where=text("status = 'active'::status")),
    )

    id: Mapped[int] = mapped_column(Identity(always=False), primary_key=True)
    name: Mapped[str] = mapped_column(Text)
    unit_id: Mapped[int | None] = mapped_column(
        ForeignKey("units.id", name="employees_unit_id_fkey", ondelete="SET NULL")
    )
    manager_id: Mapped[int | None] = mapped_column(
        ForeignKey("employees.id", name="employees_manager_id_fkey")
    )
    email: Mapped[str] = mapped_column(String(100))
    hired_on: Mapped[date] = mapped_column(server_default=func.current_date())
    status: Mapped[Status] = mapped_column(
        Enum(Status, name="status", values_callable=list), server_default="active"
    )
    settings: Mapped[dict[str, object] | None] = mapped_column(JSONB)


class Project(Base):
    __tablename__ = "projects"

    code: Mapped[str] = mapped_column(String(8), primary_key=True)
    started_at: Mapped[datetime | None]


class Assignment(Base):
    __tablename__ = "assignments"

    employee_id: Mapped[int] = mapped_column(
        ForeignKey("employees.id", name="assignments_employee_id_fkey", ondelete="CASCADE"),
        primary_key=True,
    )
    project_code: Mapped[str] = mapped_column(
        ForeignKey("projects.code", name="assignments_project_code_fkey", onupdate="CASCADE"),
        primary_key=True,
    )
