"""A gateway on a network address: clients prove that they know a password, over TLS alone."""

import asyncio
import base64
import hashlib
import select
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import psycopg
import pytest

from pgwire_gateway.listener.authentication import DELAY_S
from pgwire_gateway.messages.authentication import AuthenticationSASL, SASLInitialResponse
from pgwire_gateway.messages.responses import ErrorResponse
from pgwire_gateway.messages.startup import SSLRequest, StartupMessage
from tests.support import drivers
from tests.support.certificates import Certificates, make_certificates
from tests.support.fix_server import SPARK_OPTIONS
from tests.support.servers import Address, GatewayProcess
from tests.support.wire_client import LoginError, WireClient

pytestmark = pytest.mark.integration

ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - what is tested
PASSWORD = "schön, 'geheim'"  # noqa: S105
TIMEOUT_S = 8

ROLES = {
    "encryption_reader": "LOGIN PASSWORD 'reader'",
    "encryption_expired": "LOGIN PASSWORD 'right' VALID UNTIL '2020-01-01'",
    "encryption_always_expired": "LOGIN PASSWORD 'right' VALID UNTIL '-infinity'",
    "encryption_later": "LOGIN PASSWORD 'right' VALID UNTIL 'infinity'",
    "encryption_without": "LOGIN",
    "encryption_group": "NOLOGIN PASSWORD 'right'",
    "encryption_nobody_more": "LOGIN PASSWORD 'right' CONNECTION LIMIT 0",
    "encryption_one": "LOGIN PASSWORD 'right' CONNECTION LIMIT 1",
}


@dataclass(frozen=True)
class Place:
    """A gateway that listens on all addresses."""

    address: Address
    process: GatewayProcess
    files: Certificates

    def conninfo(self, **options: str) -> str:
        verified = {"sslmode": "verify-full", "sslrootcert": str(self.files.authority)}
        return self.address.conninfo(**{"password": PASSWORD, **verified, **options})

    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.files.authority)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("network")
    files, data = make_certificates(directory), directory / "data"
    password = psycopg.sql.Literal(PASSWORD).as_string()
    definitions = [f"CREATE ROLE {name} {options}" for name, options in ROLES.items()]
    with GatewayProcess(data, *SPARK_OPTIONS) as process:
        process.address.execute(f"ALTER ROLE postgres PASSWORD {password}", *definitions)
    options = (
        f"--host={ANY_ADDRESS}",
        f"--tls-certificate={files.server}",
        f"--tls-key={files.key}",
        f"--authentication-timeout-s={TIMEOUT_S}",
    )
    with GatewayProcess(data, *SPARK_OPTIONS, *options) as process:
        yield Place(Address("127.0.0.1", process.address.port), process, files)


def refusal(conninfo: str) -> str:
    with pytest.raises(psycopg.OperationalError) as caught:
        psycopg.connect(conninfo)
    return str(caught.value)


# clients ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("versions", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize("negotiation", ["postgres", "direct"])
def test_psycopg_binds_the_password_to_the_connection(place, versions, negotiation):
    conninfo = place.conninfo(
        channel_binding="require",
        sslnegotiation=negotiation,
        ssl_min_protocol_version=versions,
        ssl_max_protocol_version=versions,
    )
    with psycopg.connect(conninfo) as connection:
        assert connection.pgconn.ssl_in_use
        assert connection.execute("SELECT CURRENT_USER").fetchone() == ("postgres",)


def test_psycopg_without_channel_binding(place):
    with psycopg.connect(place.conninfo(channel_binding="disable")) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_psql(place):
    psql = shutil.which("psql")
    if psql is None:
        pytest.skip("there is no psql")
    done = subprocess.run(
        [psql, "-X", "-At", place.conninfo(channel_binding="require"), "-c", "SELECT CURRENT_USER"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("postgres\n", "")


@pytest.mark.parametrize("direct", [False, True])
def test_asyncpg(place, direct):
    context = place.context()
    context.set_alpn_protocols(["postgresql"])

    async def user() -> object:
        connection = await asyncpg.connect(
            host=place.address.host,
            port=place.address.port,
            user="postgres",
            database="postgres",
            password=PASSWORD,
            ssl=context,
            direct_tls=direct,
        )
        try:
            return await connection.fetchval("SELECT CURRENT_USER")
        finally:
            await connection.close()

    assert asyncio.run(user()) == "postgres"


@pytest.mark.parametrize("binding", ["require", "disable"])
def test_pgjdbc(place, binding):
    driver, java = drivers.driver(), shutil.which("javac")
    if driver is None or java is None:
        pytest.skip("there is no pgjdbc, or no compiler for Java")
    # What 42.7.4 knows nothing of is left out by it.
    url = (
        f"jdbc:postgresql://localhost:{place.address.port}/postgres?user=encryption_reader"
        f"&password=reader&sslmode=verify-full&sslrootcert={place.files.authority}"
        f"&channelBinding={binding}"
    )
    done = subprocess.run(
        ["java", "-cp", str(driver), str(Path(__file__).with_name("Connect.java")), url],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.stdout, done.stderr) == ("encryption_reader\n", "")


# what travels -------------------------------------------------------------------------------------


def test_large_results_and_loads_arrive_whole(place):
    rows = 200_000
    with psycopg.connect(place.conninfo(), autocommit=True) as connection:
        connection.execute("CREATE TABLE wide (id integer PRIMARY KEY, v text)")
        with connection.cursor() as cursor, cursor.copy("COPY wide FROM STDIN") as copy:
            for number in range(rows):
                copy.write_row((number, hashlib.sha256(str(number).encode()).hexdigest()))
        found = connection.execute("SELECT id, v FROM wide").fetchall()
        connection.execute("DROP TABLE wide")
    assert len(found) == rows
    assert all(v == hashlib.sha256(str(n).encode()).hexdigest() for n, v in found)


def test_a_running_statement_is_cancelled_over_tls(place):
    with psycopg.connect(place.conninfo(), autocommit=True) as connection:
        cursor = connection.cursor()
        connection.execute("SELECT 1")
        connection.pgconn.send_query(b"SELECT pg_sleep(60)")
        began = time.monotonic()
        # One that comes before its statement cancels nothing.
        while connection.pgconn.is_busy() and time.monotonic() - began < 30:
            connection.cancel_safe(timeout=30)
            select.select([connection.pgconn.socket], [], [], 1)
            connection.pgconn.consume_input()
        while result := connection.pgconn.get_result():
            last = result
        assert time.monotonic() - began < 30
        assert last.error_field(psycopg.pq.DiagnosticField.SQLSTATE) == b"57014"
        assert cursor.execute("SELECT 2").fetchone() == (2,)


# refusals -----------------------------------------------------------------------------------------


def test_connections_without_encryption_are_refused(place):
    assert "not encrypted" in refusal(place.conninfo(sslmode="disable"))


def test_another_certificate_is_not_trusted(place, tmp_path):
    other = make_certificates(tmp_path)
    assert "SSL error" in refusal(place.conninfo(sslrootcert=str(other.authority)))
    wait_for(lambda: any("do not agree on encryption" in line for line in place.process.log))


@pytest.mark.parametrize(
    ("user", "password"),
    [
        ("postgres", "wrong"),
        ("postgres", ""),
        ("nobody_at_all", "right"),
        ("encryption_expired", "right"),
        ("encryption_always_expired", "right"),
        ("encryption_without", ""),
        ("encryption_group", "wrong"),
    ],
)
def test_failures_look_alike(place, user, password):
    began = time.monotonic()
    with pytest.raises(LoginError) as caught:
        WireClient.connect(
            (place.address.host, place.address.port),
            {"user": user, "database": "postgres"},
            password=password,
            ssl_context=place.context(),
        )
    assert time.monotonic() - began >= DELAY_S
    error = caught.value.error
    assert (error.severity, error.sqlstate) == ("FATAL", "28P01")
    assert error.message == f'password authentication failed for user "{user}"'
    assert {code for code, _ in error.fields} == {"S", "V", "C", "M"}
    wait_for(lambda: any(f"'{user}'" in line for line in place.process.log))


def test_who_has_proved_its_password_is_told_why_it_may_not_log_in(place):
    assert "not permitted to log in" in refusal(
        place.conninfo(user="encryption_group", password="right")  # noqa: S106
    )
    assert "too many connections for role" in refusal(
        place.conninfo(user="encryption_nobody_more", password="right")  # noqa: S106
    )
    with psycopg.connect(place.conninfo(user="encryption_later", password="right")):  # noqa: S106
        pass


def test_a_new_password_counts_at_once(place):
    with psycopg.connect(place.conninfo(), autocommit=True) as connection:
        connection.execute("CREATE ROLE encryption_new LOGIN PASSWORD 'first'")
        connection.execute("ALTER ROLE encryption_new PASSWORD 'second'")
    assert "failed" in refusal(place.conninfo(user="encryption_new", password="first"))  # noqa: S106
    with psycopg.connect(
        place.conninfo(user="encryption_new", password="second"),  # noqa: S106
        autocommit=True,
    ) as connection:
        connection.execute("ALTER ROLE encryption_new PASSWORD 'third'")
    with psycopg.connect(place.conninfo(), autocommit=True) as connection:
        connection.execute("DROP ROLE encryption_new")


def secure_socket(place: Place, *protocols: str) -> ssl.SSLSocket:
    context = place.context()
    if protocols:
        context.set_alpn_protocols(list(protocols))
    plain = socket.create_connection((place.address.host, place.address.port), 30)
    return context.wrap_socket(plain, server_hostname="localhost")


def test_tls_at_once_has_to_name_the_protocol(place):
    for protocols in ((), ("h2", "http/1.1")):
        with secure_socket(place, *protocols) as connection:
            answer = WireClient(connection).receive()
        assert isinstance(answer, ErrorResponse)
        assert answer.sqlstate == "08P01"
        assert "ALPN" in answer.message


def test_bytes_before_the_handshake_are_refused(place):
    with socket.create_connection((place.address.host, place.address.port), 30) as connection:
        connection.sendall(SSLRequest().encode() + b"SELECT")
        answer = WireClient(connection).receive_until_closed()[-1]
    assert isinstance(answer, ErrorResponse)
    assert (answer.sqlstate, answer.message) == (
        "08P01",
        "received unencrypted data after SSL request",
    )


@pytest.mark.parametrize(
    ("mechanism", "first"),
    [
        ("SCRAM-SHA-1", b"n,,n=,r=abc"),
        ("SCRAM-SHA-256", None),
        ("SCRAM-SHA-256", b"nonsense"),
        ("SCRAM-SHA-256-PLUS", b"n,,n=,r=abc"),
    ],
)
def test_an_exchange_that_breaks_the_rules_is_ended(place, mechanism, first):
    with secure_socket(place, "postgresql") as connection:
        client = WireClient(connection)
        parameters = (("user", "postgres"), ("database", "postgres"))
        client.send(StartupMessage(client.protocol_version, parameters))
        offer = client.receive()
        assert isinstance(offer, AuthenticationSASL)
        assert offer.mechanisms == ("SCRAM-SHA-256-PLUS", "SCRAM-SHA-256")
        client.send(SASLInitialResponse(mechanism, first))
        answer = client.receive()
    assert isinstance(answer, ErrorResponse)
    assert (answer.severity, answer.sqlstate) == ("FATAL", "08P01")


def test_salts_tell_nothing_of_who_exists(place):
    def salt(user: str) -> str:
        with secure_socket(place, "postgresql") as connection:
            client = WireClient(connection)
            client.send(StartupMessage(client.protocol_version, (("user", user),)))
            client.receive()
            client.send(SASLInitialResponse("SCRAM-SHA-256", b"n,,n=,r=abc"))
            challenge = client.receive().data.decode()
        return dict(part.split("=", 1) for part in challenge.split(","))["s"]

    found = {user: {salt(user) for _ in range(2)} for user in ("postgres", "nobody", "no_one")}
    assert all(len(salts) == 1 for salts in found.values())
    assert len(set.union(*found.values())) == len(found)
    assert {len(base64.b64decode(salts.pop())) for salts in found.values()} == {16}


@pytest.mark.parametrize("first", [b"", b"\x00", SSLRequest().encode(), b"\x16\x03\x01"])
def test_who_does_not_begin_in_time_is_dropped(place, first):
    began = time.monotonic()
    with socket.create_connection((place.address.host, place.address.port), 60) as connection:
        connection.sendall(first)
        while connection.recv(100):
            pass
        assert TIMEOUT_S - 1 < time.monotonic() - began < TIMEOUT_S + 20


@pytest.mark.parametrize("answers", [0, 1])
def test_who_stops_proving_its_password_is_dropped(place, answers):
    began = time.monotonic()
    with secure_socket(place, "postgresql") as connection:
        client = WireClient(connection)
        client.send(StartupMessage(client.protocol_version, (("user", "postgres"),)))
        assert isinstance(client.receive(), AuthenticationSASL)
        for _ in range(answers):
            client.send(SASLInitialResponse("SCRAM-SHA-256", b"n,,n=,r=abc"))
            client.receive()
        connection.settimeout(60)
        assert client.receive_until_closed() == []
        assert TIMEOUT_S - 1 < time.monotonic() - began < TIMEOUT_S + 20


def test_a_role_has_as_many_sessions_as_it_may(place):
    def connect() -> WireClient:
        return WireClient.connect(
            (place.address.host, place.address.port),
            {"user": "encryption_one", "database": "postgres"},
            password="right",  # noqa: S106
            ssl_context=place.context(),
        )

    with connect():
        with pytest.raises(LoginError) as caught:
            connect()
        error = caught.value.error
        assert (error.severity, error.sqlstate) == ("FATAL", "53300")
        assert error.message == 'too many connections for role "encryption_one"'


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


# starting -----------------------------------------------------------------------------------------


def complaint(directory: Path, *options: str) -> str:
    process = GatewayProcess(directory / "data", *options)
    process.launch()
    assert process.wait() == 1
    return process.log_text()


def test_a_network_address_needs_a_certificate(tmp_path):
    text = complaint(tmp_path, f"--host={ANY_ADDRESS}")
    assert f"refusing to listen on {ANY_ADDRESS}" in text
    assert "--tls-certificate" in text


MOST = 5
"""Clients at once, of a gateway that lets in whoever reaches it."""


@pytest.fixture(scope="module")
def insecure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    """A gateway on all addresses, whose operator wants neither encryption nor passwords."""
    options = (f"--host={ANY_ADDRESS}", "--allow-insecure-network", f"--max-connections={MOST}")
    with GatewayProcess(tmp_path_factory.mktemp("insecure"), *SPARK_OPTIONS, *options) as process:
        yield Address("127.0.0.1", process.address.port)


def test_an_operator_can_do_without(insecure):
    with psycopg.connect(insecure.conninfo(sslmode="disable")) as connection:
        assert not connection.pgconn.ssl_in_use
        assert connection.execute("SELECT CURRENT_USER").fetchone() == ("postgres",)
    assert "server does not support SSL" in refusal(insecure.conninfo(sslmode="require"))


def test_not_too_many_clients_begin_at_once(insecure):
    with ExitStack() as stack:
        # One more than there can be sessions, so that whoever comes to many is told so.
        for _ in range(MOST + 1):
            stack.enter_context(socket.create_connection((insecure.host, insecure.port), 30))
        time.sleep(1)
        with pytest.raises(LoginError) as caught:
            WireClient.connect((insecure.host, insecure.port), {"user": "postgres"})
        error = caught.value.error
        assert (error.severity, error.sqlstate) == ("FATAL", "53300")
        assert error.message == "sorry, too many clients already"
    deadline = time.monotonic() + 30
    while True:  # those that have gone make room
        try:
            WireClient.connect((insecure.host, insecure.port), {"user": "postgres"}).close()
        except LoginError:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        else:
            break


def test_trust_is_for_loopback(tmp_path):
    files = make_certificates(tmp_path)
    options = (f"--tls-certificate={files.server}", f"--tls-key={files.key}")
    text = complaint(tmp_path, f"--host={ANY_ADDRESS}", *options, "--authentication=trust")
    assert f"refusing to listen on {ANY_ADDRESS}" in text


def test_without_any_password_nobody_could_log_in(tmp_path):
    text = complaint(tmp_path, "--authentication=scram-sha-256")
    assert "no role has a password" in text
    assert "ALTER ROLE postgres PASSWORD" in text
