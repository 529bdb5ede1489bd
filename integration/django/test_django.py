"""Django's own tests, run by its own runner: those of its contrib apps, and of what lies below."""

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import django
import pytest

from tests.support.programs import environment
from tests.support.servers import Address

DIRECTORY = Path(__file__).parent

TESTS = Path(sys.prefix) / "src" / f"django-{django.__version__}" / "tests"
"""From Django's source distribution, where ``make install-clients`` puts it."""

SAMPLE = ("contenttypes_tests", "sites_tests", "redirects_tests", "auth_tests.test_management")
"""What meets most of what the others meet."""

CONTRIB = (
    "sessions_tests",
    "flatpages_tests",
    "messages_tests",
    "admin_changelist",
)

AUTH = (
    "auth_tests.test_admin_multidb",
    "auth_tests.test_auth_backends",
    "auth_tests.test_basic",
    "auth_tests.test_handlers",
    "auth_tests.test_login",
    "auth_tests.test_migrations",
    "auth_tests.test_remote_user",
    "auth_tests.test_signals",
    "auth_tests.test_tokens",
)
"""Further modules of ``auth_tests``, which ask the server most and hash passwords least."""

BELOW = {
    "definitions": ("schema introspection inspectdb indexes constraints model_indexes", 433),
    "migrations": ("migrations migrations2 migrate_signals custom_migration_operations", 787),
    "transactions": ("transactions transaction_hooks select_for_update fixtures", 194),
    "writes": ("bulk_create update delete delete_regress get_or_create force_insert_update", 225),
    "relations": ("many_to_many many_to_one one_to_one m2m_through prefetch_related", 298),
    "queries": ("queries basic lookup ordering select_related distinct_on_fields", 736),
    "computed": ("aggregation_regress annotations expressions_case expressions_window dates", 335),
    "fields": ("model_fields datetimes timezones custom_columns custom_pk", 629),
}
"""Labels of the tests of Django's database layer, and how many these are."""

FAILURE = re.compile(r"^(?:FAIL|ERROR): \w+ \(([\w.]+)\)", re.MULTILINE)


@dataclass(frozen=True)
class Outcome:
    """What a run of Django's tests came to."""

    count: int
    failed: frozenset[str]
    output: str


def run_tests(server: Address, *labels: str) -> Outcome:
    """Run tests of Django."""
    assert TESTS.is_dir(), "Django's tests are not installed: make install-clients"
    runner = [sys.executable, "runtests.py", "--settings=postgresql_settings"]
    output = subprocess.run(
        [*runner, "--parallel=1", "--noinput", *labels],
        cwd=TESTS,
        env=environment(**server.variables(), PYTHONPATH=str(DIRECTORY)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    ).stdout
    ran = re.search(r"^Ran (\d+) tests", output, re.MULTILINE)
    assert ran is not None, output[-20_000:]
    return Outcome(int(ran[1]), frozenset(FAILURE.findall(output)), output[-20_000:])


def failing_on_postgresql() -> frozenset[str]:
    """Return the tests that fail on PostgreSQL 18 itself; the file tells why."""
    lines = (DIRECTORY / "failing_on_postgresql.txt").read_text(encoding="utf-8").splitlines()
    return frozenset(line for line in lines if line and not line.startswith("#"))


def test_sample_of_contrib_apps(server_under_test: Address) -> None:
    outcome = run_tests(server_under_test, *SAMPLE)
    assert not outcome.failed, outcome.output
    assert outcome.count == 187


@pytest.mark.exhaustive
@pytest.mark.timeout(1800)
def test_contrib_apps(server_under_test: Address) -> None:
    outcome = run_tests(server_under_test, *SAMPLE, *CONTRIB, *AUTH)
    assert not outcome.failed, outcome.output
    assert outcome.count == 1360


@pytest.mark.exhaustive
@pytest.mark.timeout(1800)
def test_whole_of_authentication_and_admin(server_under_test: Address) -> None:
    outcome = run_tests(server_under_test, "auth_tests", "admin_views")
    assert not outcome.failed, outcome.output
    assert outcome.count == 1304


@pytest.mark.exhaustive
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("labels", "count"), BELOW.values(), ids=BELOW)
def test_database_layer(server_under_test: Address, labels: str, count: int) -> None:
    outcome = run_tests(server_under_test, *labels.split())
    assert outcome.failed <= failing_on_postgresql(), outcome.output
    assert outcome.count == count
