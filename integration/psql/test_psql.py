"""psql 18 shows with the gateway what it shows with PostgreSQL."""

from pathlib import Path

from tests.support.fix_server import Pair
from tests.support.programs import run
from tests.support.servers import Address

DIRECTORY = Path(__file__).parent

SESSION = DIRECTORY / "session.sql"

EXPECTED = DIRECTORY / "session.out"
"""What psql writes when it is connected to PostgreSQL 18."""


def session(server: Address, database: str) -> str:
    """Return all that psql writes, errors among it, as on a terminal."""
    merged = run(
        "psql",
        ["--no-psqlrc", "--echo-queries", "--set=VERBOSITY=default", "--file=-"],
        server={**server.variables(database), "PGOPTIONS": "-c client_min_messages=warning"},
        stdin=SESSION.read_text(encoding="utf-8"),
        merged=True,
    )
    return merged.stdout


def test_session_is_the_same_as_on_postgresql(pair: Pair) -> None:
    name = pair.database
    plain = session(pair.plain, name).replace(name, "psql_session")
    gateway = session(pair.gateway, name).replace(name, "psql_session")
    assert plain.splitlines() == EXPECTED.read_text(encoding="utf-8").splitlines()
    assert gateway.splitlines() == plain.splitlines()


def test_journals_are_in_no_list(gateway: Address, database: str) -> None:
    gateway.execute("CREATE TABLE t (id integer PRIMARY KEY, v text)", database=database)
    listed = run("psql", ["-XAtc", r"\dt"], server=gateway.variables(database)).stdout
    assert listed.splitlines() == ["public|t|table|postgres"]
    tables = (
        "SELECT table_schema, table_name FROM information_schema.tables"
        " WHERE table_schema !~ '^(pg_catalog|information_schema)$'"
    )
    named = run("psql", ["-XAtc", tables], server=gateway.variables(database)).stdout
    assert named.splitlines() == ["public|t"]


def test_lists_of_databases_are_the_same(pair: Pair) -> None:
    listed = {}
    for server in (pair.plain, pair.gateway):
        output = run("psql", ["-XAtc", r"\l"], server=server.variables(pair.database)).stdout
        lines = output.splitlines()
        listed[server] = [
            line
            for line in lines
            if line.startswith(("postgres|", "template", f"{pair.database}|", "="))
        ]
    assert listed[pair.gateway] == listed[pair.plain]
    assert len(listed[pair.plain]) >= 4


def test_tab_completion_queries_are_answered(pair: Pair) -> None:
    # What psql 18 sends when TAB is pressed after "SELECT * FROM ".
    query = (
        "SELECT pg_catalog.quote_ident(c.relname) FROM pg_catalog.pg_class c "
        "WHERE c.relkind IN ('r', 'S', 'v', 'm', 'f', 'p') "
        "AND substring(pg_catalog.quote_ident(c.relname),1,2)='pg' "
        "AND pg_catalog.pg_table_is_visible(c.oid) ORDER BY 1"
    )
    outputs = [
        run("psql", ["-XAtc", query], server=server.variables(pair.database)).stdout
        for server in (pair.plain, pair.gateway)
    ]
    assert outputs[0] == outputs[1]
    assert "pg_class" in outputs[0]
