"""The server's side of SCRAM-SHA-256, against a client's that knows only the RFC."""

import base64
import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgwire_gateway.errors import FatalError, ProtocolError
from pgwire_gateway.listener import scram
from pgwire_gateway.listener.scram import Exchange, Verifier
from tests.support.wire_client import ScramClient

SALT = b"0123456789abcdef"


def verifier(password: str, iterations: int = 4096) -> Verifier:
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), SALT, iterations)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    server_key = hmac.digest(salted, b"Server Key", "sha256")
    return Verifier(iterations, SALT, hashlib.sha256(client_key).digest(), server_key)


def test_the_form_of_pg_authid_is_read():
    known = verifier("secret", 5000)
    stored, server = (
        base64.b64encode(key).decode() for key in (known.stored_key, known.server_key)
    )
    text = f"SCRAM-SHA-256$5000:{base64.b64encode(SALT).decode()}${stored}:{server}"
    assert Verifier.parse(text) == known
    assert Verifier.parse("md5" + 32 * "0") is None


# HMAC takes keys that differ in zeros at their end alone for the same one; no password has any.
CHARACTERS = st.characters(codec="utf-8", exclude_characters="\0")


@given(st.text(CHARACTERS, min_size=1, max_size=20), st.text(CHARACTERS, max_size=20))
def test_who_knows_the_password_and_nobody_else_is_let_in(right, other):
    for password in (right, other):
        client, exchange = ScramClient(password), Exchange(verifier(right))
        outcome = exchange.outcome(client.final(exchange.challenge(client.first())))
        assert (outcome is not None) == (password == right)
        if outcome is not None:
            client.verify(outcome[0])
            assert hashlib.sha256(outcome[1].client_key).digest() == verifier(right).stored_key


def test_names_without_password_have_the_same_salt_each_time_and_let_nobody_in():
    mocks = [Verifier.mock(b"secret", "nobody") for _ in range(2)]
    assert mocks[0].salt == mocks[1].salt != Verifier.mock(b"secret", "somebody").salt
    assert mocks[0].salt != Verifier.mock(b"other", "nobody").salt
    assert len(mocks[0].salt) == 16
    client, exchange = ScramClient(""), Exchange(mocks[0])
    assert exchange.outcome(client.final(exchange.challenge(client.first()))) is None


@pytest.mark.parametrize(
    ("mechanism", "end_point", "first", "sqlstate"),
    [
        (scram.NAME, None, b"", "08P01"),
        (scram.NAME, None, b"\xff", "08P01"),
        (scram.NAME, None, b"n,,n=x", "08P01"),
        (scram.NAME, None, b"n,,x=x,r=abc", "08P01"),
        (scram.NAME, None, b"n,,n=,r=a\x07c", "08P01"),
        (scram.NAME, None, b"n,a=me,n=,r=abc", "0A000"),
        (scram.NAME, None, b"n,,m=ext,r=abc", "0A000"),
        (scram.NAME, b"x", b"p=tls-server-end-point,,n=,r=abc", "08P01"),
        (scram.NAME, b"x", b"y,,n=,r=abc", "28000"),
        (scram.NAME_WITH_BINDING, b"x", b"n,,n=,r=abc", "08P01"),
        (scram.NAME_WITH_BINDING, b"x", b"p=tls-unique,,n=,r=abc", "0A000"),
    ],
)
def test_a_first_message_that_is_wrong_is_refused(mechanism, end_point, first, sqlstate):
    exchange = Exchange(verifier("secret"), mechanism=mechanism, end_point=end_point)
    with pytest.raises((ProtocolError, FatalError)) as caught:
        exchange.challenge(first)
    assert caught.value.sqlstate == sqlstate


def test_a_client_that_knows_of_no_binding_is_welcome_where_there_is_none():
    assert Exchange(verifier("secret")).challenge(b"y,,n=,r=abc").startswith(b"r=abc")


@pytest.mark.parametrize(
    ("change", "sqlstate"),
    [
        (lambda final: final[:0], "08P01"),
        (lambda final: final.replace(b"c=biws", b"c=eSws"), "28000"),
        (lambda final: final.replace(b",r=", b",r=x"), "08P01"),
        (lambda final: final[: final.index(b",p=")] + b",p=AAAA", "08P01"),
        (lambda final: final[: final.index(b",p=")] + b",p=?", "08P01"),
    ],
    ids=["empty", "other header", "other nonce", "short proof", "no base64"],
)
def test_a_last_message_that_is_wrong_is_refused(change, sqlstate):
    client, exchange = ScramClient("secret"), Exchange(verifier("secret"))
    final = client.final(exchange.challenge(client.first()))
    with pytest.raises((ProtocolError, FatalError)) as caught:
        exchange.outcome(change(final))
    assert caught.value.sqlstate == sqlstate


def test_a_proof_bound_to_another_certificate_is_refused():
    exchange = Exchange(
        verifier("secret"), mechanism=scram.NAME_WITH_BINDING, end_point=b"this certificate"
    )
    answer = exchange.challenge(b"p=tls-server-end-point,,n=,r=abc").decode()
    nonce = answer.split(",")[0]
    for bound, is_right in ((b"another one", False), (b"this certificate", True)):
        header = base64.b64encode(b"p=tls-server-end-point,," + bound).decode()
        final = f"c={header},{nonce},p={base64.b64encode(bytes(32)).decode()}".encode()
        if is_right:
            assert exchange.outcome(final) is None  # a wrong proof, of the right channel
        else:
            with pytest.raises(FatalError, match="channel binding check failed"):
                exchange.outcome(final)
