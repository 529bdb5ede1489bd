"""dbt: a project of seeds, snapshots, models of every kind and tests, built twice."""

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path

import psycopg
import pytest

from tests.support.fix_clients import scratch_database
from tests.support.programs import environment
from tests.support.repository import ROOT
from tests.support.servers import Address

pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(900)]

PROJECT = Path(__file__).parent / "project"

PROGRAM = ROOT / os.environ.get("DBT_VENV", ".venv-dbt") / "bin" / "dbt"
"""In an environment of its own, which ``make install-dbt`` makes."""

CHANGES = (
    "UPDATE analytics.customers SET city = 'Paris', changed_at = now() WHERE customer_id = 2",
    "DELETE FROM analytics.customers WHERE customer_id = 4",
    "UPDATE analytics.orders SET amount = 8 WHERE order_id = 11",
    "INSERT INTO analytics.orders VALUES (15, 2, '2024-03-02', 20)",
)
"""What happens to the sources between the two builds."""


@dataclass(frozen=True)
class Project:
    """The project and the database that it is built in."""

    server: Address
    database: str
    directory: Path

    def start(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command of dbt."""
        assert PROGRAM.is_file(), "dbt is not installed: make install-dbt"
        places = {
            "--project-dir": PROJECT,
            "--profiles-dir": PROJECT,
            "--target-path": self.directory / "target",
            "--log-path": self.directory / "log",
        }
        options = [str(part) for option in places.items() for part in option]
        return subprocess.run(
            [PROGRAM, "--no-use-colors", *arguments, *options],
            cwd=PROJECT,
            env=environment(**self.server.variables(self.database)),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    def run(self, *arguments: str) -> str:
        """Run a command of dbt that must succeed."""
        done = self.start(*arguments)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def rows(self, query: str) -> list[tuple]:
        """Return the rows of a query."""
        with psycopg.connect(self.server.conninfo(self.database)) as connection:
            return connection.execute(query).fetchall()


@pytest.fixture(scope="module")
def built(
    server_under_test: Address, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Project]:
    """The project after two builds, between which its sources have changed."""
    with scratch_database(server_under_test, "dbt") as name:
        project = Project(server_under_test, name, tmp_path_factory.mktemp("dbt"))
        project.run("seed")
        project.run("snapshot")
        project.run("run")
        project.server.execute(*CHANGES, database=name)
        project.run("snapshot")
        project.run("run")
        yield project


def test_tests_of_the_project_pass(built: Project) -> None:
    # Seven of data, one of a model, and the hook.
    assert "Done. PASS=9 WARN=0 ERROR=0 SKIP=0 NO-OP=0 TOTAL=9" in built.run("test")


def test_every_relation_is_of_its_kind(built: Project) -> None:
    kinds = built.rows(
        "SELECT relname, relkind::text FROM pg_class WHERE relkind IN ('r', 'v', 'm')"
        " AND relnamespace = 'analytics'::regnamespace ORDER BY relname"
    )
    assert kinds == [
        ("best_customers", "r"),
        ("city_totals", "m"),
        ("customer_totals", "r"),
        ("customers", "r"),
        ("orders", "r"),
        ("orders_appended", "r"),
        ("orders_merged", "r"),
        ("orders_replaced", "r"),
        ("runs", "r"),
        ("stg_customers", "v"),
        ("stg_orders", "v"),
    ]


def test_snapshots_keep_what_rows_were(built: Project) -> None:
    history = (
        "SELECT customer_id, city, dbt_valid_to IS NULL FROM snapshots.customers_history"
        " ORDER BY customer_id, dbt_valid_from"
    )
    assert built.rows(history) == [
        (1, "London", True),
        (2, "New York", False),
        (2, "Paris", True),
        (3, "Rotterdam", True),
        (4, None, False),
    ]
    amounts = (
        "SELECT amount, dbt_valid_to IS NULL FROM snapshots.orders_history"
        " WHERE order_id IN (11, 15) ORDER BY order_id, dbt_valid_from"
    )
    assert [(float(amount), current) for amount, current in built.rows(amounts)] == [
        (7.0, False),
        (8.0, True),
        (20.0, True),
    ]


def test_incremental_models_take_what_is_new(built: Project) -> None:
    appended = "SELECT order_id, amount FROM analytics.orders_appended ORDER BY order_id"
    assert built.rows(appended) == [
        (10, Decimal("12.50")),
        (11, Decimal("7.00")),
        (12, Decimal("100.25")),
        (13, Decimal("0.00")),
        (14, Decimal("3.99")),
        (15, Decimal("20.00")),
    ]
    merged = "SELECT order_id, written FROM analytics.orders_merged ORDER BY order_id"
    assert built.rows(merged) == [
        (10, "first"),
        (11, "first"),
        (12, "first"),
        (13, "first"),
        (14, "again"),
        (15, "again"),
    ]
    replaced = (
        "SELECT placed_on, amount FROM analytics.orders_replaced"
        " WHERE customer_id IN (1, 2) ORDER BY placed_on, customer_id"
    )
    assert built.rows(replaced) == [
        (date(2024, 2, 1), Decimal("12.50")),
        (date(2024, 2, 3), Decimal("8.00")),
        (date(2024, 2, 3), Decimal("100.25")),
        (date(2024, 3, 1), Decimal("3.99")),
        (date(2024, 3, 2), Decimal("20.00")),
    ]


def test_tables_and_materialized_views_are_computed_again(built: Project) -> None:
    cities = "SELECT city, customers, total FROM analytics.city_totals ORDER BY city"
    assert built.rows(cities) == [
        ("London", 1, Decimal("24.49")),
        ("Paris", 1, Decimal("120.25")),
        ("Rotterdam", 1, Decimal("0.00")),
    ]
    best = "SELECT place, name FROM analytics.best_customers ORDER BY place"
    assert built.rows(best) == [(1, "Grace"), (2, "Ada")]


def test_hook_has_run_after_each_build(built: Project) -> None:
    assert built.rows("SELECT count(*) FROM analytics.runs") == [(2,)]


def test_documentation_knows_the_columns(built: Project) -> None:
    built.run("docs", "generate")
    catalog = json.loads((built.directory / "target" / "catalog.json").read_text())
    assert not catalog["errors"]
    totals = catalog["nodes"]["model.shop.customer_totals"]
    assert totals["metadata"]["comment"] == "One row a customer: it's a table"
    assert [(c["name"], c["type"]) for c in totals["columns"].values()] == [
        ("customer_id", "bigint"),
        ("name", "text"),
        ("city", "text"),
        ("orders", "bigint"),
        ("total", "numeric"),
    ]


def test_broken_rows_fail_the_tests_of_the_project(built: Project) -> None:
    built.server.execute(
        "INSERT INTO analytics.orders VALUES (10, 77, '2024-04-01', 1)", database=built.database
    )
    try:
        done = built.start("test", "--select", "stg_orders", "--indirect-selection", "cautious")
    finally:
        built.server.execute(
            "DELETE FROM analytics.orders WHERE customer_id = 77", database=built.database
        )
    assert done.returncode == 1, done.stdout
    assert "FAIL 1 unique_stg_orders_order_id" in done.stdout
    assert "PASS not_null_stg_orders_order_id" in done.stdout
