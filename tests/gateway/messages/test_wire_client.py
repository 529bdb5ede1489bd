"""The raw client and the scripted peer, each tested with the other."""

import pytest

from pgwire_gateway.messages import (
    AuthenticationCleartextPassword,
    AuthenticationMD5Password,
    AuthenticationOk,
    AuthenticationSASL,
    AuthenticationSASLContinue,
    AuthenticationSASLFinal,
    BackendKeyData,
    Bind,
    BindComplete,
    CommandComplete,
    DataRow,
    ErrorResponse,
    Execute,
    NegotiateProtocolVersion,
    ParameterStatus,
    Parse,
    ParseComplete,
    PasswordMessage,
    ProtocolVersion,
    Query,
    ReadyForQuery,
    SASLInitialResponse,
    SASLResponse,
    SSLRequest,
    StartupMessage,
    Sync,
    Terminate,
    TransactionStatus,
)
from tests.support.scripted_peer import (
    Backend,
    Expect,
    ExpectClose,
    Frontend,
    HangUp,
    ScriptError,
    Send,
    played,
)
from tests.support.wire_client import (
    ConnectionClosedError,
    LoginError,
    ScramClient,
    WireClient,
)

READY = ReadyForQuery(TransactionStatus.IDLE)
STARTUP = StartupMessage(ProtocolVersion(3, 0), (("user", "ada"),))
USER = {"user": "ada"}
PASSWORD = "sesam"  # noqa: S105


def test_login_without_password():
    script = [
        Expect(STARTUP),
        Send(
            AuthenticationOk(),
            ParameterStatus("server_version", "18.4"),
            BackendKeyData(7, b"key!"),
            READY,
        ),
        Expect(Terminate()),
        ExpectClose(),
    ]
    with played(Backend(), script) as transport:
        client = WireClient(transport)
        messages = client.log_in(USER)
        client.terminate()
    assert messages[-1] == READY
    assert client.settings == {"server_version": "18.4"}
    assert client.key == BackendKeyData(7, b"key!")
    assert client.transaction_status is TransactionStatus.IDLE


def test_login_with_cleartext_password():
    script = [
        Expect(STARTUP),
        Send(AuthenticationCleartextPassword()),
        Expect(PasswordMessage(PASSWORD)),
        Send(AuthenticationOk(), READY),
    ]
    with played(Backend(), script) as transport:
        WireClient(transport).log_in(USER, password=PASSWORD)


def test_login_with_md5_password():
    script = [
        Expect(STARTUP),
        Send(AuthenticationMD5Password(b"salt")),
        Expect(PasswordMessage("md5720d887a2350b019698763a76d466e67")),
        Send(AuthenticationOk(), READY),
    ]
    with played(Backend(), script) as transport:
        WireClient(transport).log_in(USER, password=PASSWORD)


def test_scram_follows_the_example_of_rfc_7677():
    client = ScramClient("pencil", user="user", nonce="rOprNGfwEbeRWgbNEkqO")
    nonce = b"rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert client.final(b"r=" + nonce + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096") == (
        b"c=biws,r=" + nonce + b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    client.verify(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


def test_scram_client_distrusts_a_server_that_does_not_know_the_password():
    script = [
        Expect(STARTUP),
        Send(AuthenticationSASL(("SCRAM-SHA-256",))),
        Expect(SASLInitialResponse),
        Send(AuthenticationSASLContinue(b"r=abc,s=c2FsdA==,i=4096")),
        Expect(SASLResponse),
        Send(AuthenticationSASLFinal(b"v=AAAA")),
    ]
    with (
        pytest.raises(AssertionError),
        played(Backend(), script) as transport,
    ):
        WireClient(transport).log_in(USER, password=PASSWORD)


def test_refused_login_shows_the_error():
    error = ErrorResponse.of({"S": "FATAL", "V": "FATAL", "C": "28P01", "M": "no"})
    script = [Expect(STARTUP), Send(error), HangUp()]
    with played(Backend(), script) as transport, pytest.raises(LoginError) as refusal:
        WireClient(transport).log_in(USER)
    assert refusal.value.error.sqlstate == "28P01"


def test_newer_protocol_version_is_negotiated_down():
    asked = StartupMessage(ProtocolVersion(3, 9), (("user", "ada"),))
    version = ProtocolVersion(3, 2)
    script = [
        Expect(asked),
        Send(NegotiateProtocolVersion(version), AuthenticationOk(), READY),
    ]
    with played(Backend(), script) as transport:
        client = WireClient(transport)
        client.log_in(USER, protocol_version=(3, 9))
    assert client.protocol_version == version


def test_encryption_request_is_answered_by_one_byte():
    with played(Backend(), [Expect(SSLRequest()), Send(b"N")]) as transport:
        assert WireClient(transport).request_encryption(SSLRequest()) == b"N"


def test_query_returns_everything_up_to_ready():
    answers = [DataRow((b"1",)), CommandComplete("SELECT 1"), READY]
    with played(Backend(session=True), [Expect(Query("SELECT 1")), Send(*answers)]) as transport:
        assert WireClient(transport).query("SELECT 1") == answers


def test_series_of_messages_is_sent_in_one_go():
    series = [Parse("", "SELECT 1"), Bind("", ""), Execute(), Sync()]
    answers = [ParseComplete(), BindComplete(), CommandComplete("SELECT 1"), READY]
    script = [Expect(*series), Send(*answers)]
    with played(Backend(session=True), script) as transport:
        assert WireClient(transport).exchange(*series) == answers


def test_closed_connection_shows_what_came_before():
    script = [Send(CommandComplete("SELECT 1")), HangUp()]
    with played(Backend(session=True), script) as transport:
        client = WireClient(transport)
        with pytest.raises(ConnectionClosedError) as closed:
            client.receive_until_ready()
        assert closed.value.messages == [CommandComplete("SELECT 1")]
        assert client.receive_until_closed() == []


def test_script_fails_on_another_message():
    with (
        pytest.raises(ScriptError, match="step 1"),
        played(Backend(session=True), [Expect(Sync())]) as transport,
    ):
        transport.sendall(Query("SELECT 1").encode())


def test_script_fails_when_the_other_side_leaves_early():
    with (
        pytest.raises(ScriptError, match="connection closed"),
        played(Backend(session=True), [Expect(Sync())]),
    ):
        pass


def test_script_fails_when_the_other_side_stays():
    with (
        pytest.raises(ScriptError, match="instead of the end"),
        played(Frontend(), [ExpectClose()]) as transport,
    ):
        transport.sendall(READY.encode())


def test_peer_can_be_the_client():
    script = [Send(Query("SELECT 1")), Expect(CommandComplete, READY)]
    with played(Frontend(), script) as transport:
        assert transport.recv(100) == Query("SELECT 1").encode()
        transport.sendall(CommandComplete("SELECT 1").encode() + READY.encode())
