"""psql 18's commands of description show with the gateway what they show with PostgreSQL."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.fix_clients import scratch_database
from tests.support.programs import run
from tests.support.servers import Address

CATALOG = Path(__file__).parent / "catalog.sql"

OF_THE_DATABASE = (
    *(r"\d", r"\d+", r"\dt", r"\dt+", r"\di", r"\di+", r"\dv", r"\dv+", r"\dm", r"\dm+"),
    *(r"\ds", r"\ds+", r"\dE", r"\dP", r"\dP+", r"\dtmv", r"\dn", r"\dn+", r"\df", r"\df+"),
    *(r"\dfn", r"\dft", r"\dfp", r"\da", r"\dy", r"\dy+", r"\dT", r"\dT+", r"\dD", r"\dD+"),
    *(r"\dO", r"\do", r"\dp", r"\z", r"\ddp", r"\drds", r"\dX", r"\dRp", r"\dRp+", r"\dRs"),
    *(r"\des", r"\det", r"\dew", r"\deu", r"\dx", r"\dL", r"\dF", r"\dd", r"\dl"),
)
"""What there is, without a pattern: of the schemas of the search path."""

WITH_PATTERNS = (
    *(r"\d hr.*", r"\d+ public.*", r"\dt *dept*", r"\di hr.*", r"\dv pg_catalog.pg_st*"),
    *(r"\dt pg_catalog.*", r"\dtS pg_catalog.pg_t*", r"\df hr.*", r"\df pg_catalog.int4*"),
    *(r"\da hr.*", r"\dT hr.*", r"\dT+ pg_catalog.int*", r"\dn hr", r"\dnS+ pg_catalog"),
    *(r"\dp hr.*", r"\ddp hr", r"\dX hr.*", r"\dD hr.*", r"\dO hr.*", r"\do hr.*"),
    *(r"\dc pg_catalog.*utf8*", r"\dA+", r"\dAc btree", r"\dAf gin", r"\dx+", r"\dL+", r"\dLS"),
    *(r"\dF hr.*", r"\dd hr.*", r"\dCS mood", r"\dconfig search_path", r"\dconfig+ work_mem"),
)
"""What there is under some names, those of the system among them."""

OF_THE_SERVER = (
    *(r"\l postgres", r"\l template?", r"\l described*", r"\du postgres", r"\dg+ postgres"),
    *(r"\drg postgres", r"\db", r"\db pg_default", r"\duS pg_read*"),
)
"""What databases share."""

OBJECTS = (
    *("depts", "staff", "events", "events_2025", "veterans", "notes", "no_key", "rich", "sizes"),
    *("tickets", "staff_name", "depts_pkey", "place", "sizes_key", "public.outside"),
)

DEFINITIONS = (
    *(r"\sv rich", r"\sv+ rich", r"\sf greet", r"\sf touch", r"\sf nothing", r"\dT+ mood"),
    *(r"\df+ greet", r"\dd touched", r"\dp depts", r"\drds postgres", r"\dRp+ changes"),
)


@pytest.fixture(scope="module")
def databases(server_under_test: Address, plain_postgres: Address) -> Iterator[list[tuple]]:
    """The same schema under test and on PostgreSQL, with the names that tell the two apart."""
    with ExitStack() as stack:
        found = []
        for server, name in ((server_under_test, "described_a"), (plain_postgres, "described_b")):
            stack.enter_context(scratch_database(server, name))
            done = run(
                "psql",
                ["-Xq", "--set=ON_ERROR_STOP=1", f"--file={CATALOG}"],
                server=server.variables(name),
            )
            assert done.returncode == 0, done.stderr
            found.append((server, name))
        yield found


def described(server: Address, database: str, commands: tuple[str, ...]) -> list[str]:
    """Return the lines that psql writes for some commands."""
    script = "SET search_path = hr, public;\n\\set ECHO queries\n" + "\n".join(commands)
    done = run("psql", ["-Xq"], server=server.variables(database), stdin=script, merged=True)
    assert "ERROR" not in done.stdout
    assert "invalid command" not in done.stdout
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    return [line for line in lines if "described_" not in line or database in line]


def both(databases: list[tuple], *commands: str) -> tuple[list[str], list[str]]:
    """Return what psql writes on the server under test and on PostgreSQL."""
    (tested, tested_name), (plain, plain_name) = databases
    return (
        [line.replace(tested_name, "here") for line in described(tested, tested_name, commands)],
        [line.replace(plain_name, "here") for line in described(plain, plain_name, commands)],
    )


@pytest.mark.parametrize("command", OF_THE_DATABASE)
def test_list_of_the_search_path(databases: list[tuple], command: str) -> None:
    tested, plain = both(databases, command)
    assert tested == plain


@pytest.mark.parametrize("command", WITH_PATTERNS)
def test_list_by_a_pattern(databases: list[tuple], command: str) -> None:
    tested, plain = both(databases, command)
    assert len(plain) > 3
    assert tested == plain


@pytest.mark.parametrize("command", OF_THE_SERVER)
def test_list_of_the_server(databases: list[tuple], command: str) -> None:
    tested, plain = both(databases, command)
    assert tested == plain


@pytest.mark.parametrize("name", OBJECTS)
def test_one_object(databases: list[tuple], name: str) -> None:
    tested, plain = both(databases, rf"\d {name}", rf"\d+ {name}")
    assert len(plain) > 3
    assert tested == plain


@pytest.mark.parametrize("command", DEFINITIONS)
def test_definition(databases: list[tuple], command: str) -> None:
    tested, plain = both(databases, command)
    assert len(plain) > 1
    assert tested == plain
