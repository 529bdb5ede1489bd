"""An external catalog that asks for passwords: what a client has proved logs in there, too."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from catalog.server.embedded import SUPERUSER
from tests.support.servers import GatewayProcess, PlainPostgres

pytestmark = [pytest.mark.integration]

RULES = f"local all {SUPERUSER} trust\nlocal all all scram-sha-256\n"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PlainPostgres]:
    """Yield a PostgreSQL server that trusts its superuser alone."""
    with PlainPostgres(tmp_path / "server") as server:
        with psycopg.connect(
            server.address.conninfo(user=SUPERUSER), autocommit=True
        ) as connection:
            connection.execute("ALTER ROLE postgres PASSWORD 'right'")
            ((rules,),) = connection.execute("SHOW hba_file").fetchall()
            Path(str(rules)).write_text(RULES, encoding="utf-8")
            connection.execute("SELECT pg_reload_conf()")
        yield server


def test_the_gateway_logs_in_with_what_the_client_has_proved(
    server: PlainPostgres, tmp_path: Path
) -> None:
    address = server.address
    url = f"postgresql://{SUPERUSER}@/postgres?host={address.host}&port={address.port}"
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(address.conninfo(password="wrong"))  # noqa: S106
    options = ("--catalog", url, "--authentication=scram-sha-256")
    with GatewayProcess(tmp_path / "gateway", *options) as gateway:
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(gateway.address.conninfo(password="wrong"))  # noqa: S106
        right = gateway.address.conninfo(password="right")  # noqa: S106
        with psycopg.connect(right, autocommit=True) as connection:
            assert connection.execute("SELECT CURRENT_USER").fetchone() == ("postgres",)
            connection.execute("CREATE TABLE t (id integer PRIMARY KEY)")
            connection.execute("INSERT INTO t VALUES (1)")
            assert connection.execute("SELECT id FROM t").fetchall() == [(1,)]
