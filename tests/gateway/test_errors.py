import pytest

from catalog.errors import GatewayError
from pgwire_gateway.errors import FATAL, FatalError, error_response, is_fatal
from pgwire_gateway.messages.errors import FramingError, InvalidTextError, MalformedMessageError


def test_every_field_of_an_error_reaches_the_client():
    error = GatewayError(
        "no", sqlstate="23505", detail="d", hint="h", position=3, fields={"t": "depts"}
    )
    fields = dict(error_response(error).fields)
    assert fields == {
        "S": "ERROR", "V": "ERROR", "C": "23505", "M": "no", "D": "d", "H": "h", "P": "3",
        "t": "depts",
    }  # fmt: skip


def test_an_unknown_exception_keeps_its_text_off_the_wire(caplog):
    fields = dict(error_response(ValueError("secret")).fields)
    assert fields["C"] == "XX000"
    assert "secret" not in "".join(fields.values())
    assert "secret" in caplog.text


@pytest.mark.parametrize(
    ("error", "sqlstate", "fatal"),
    [
        (MalformedMessageError("invalid message format"), "08P01", False),
        (InvalidTextError("invalid byte sequence"), "22021", False),
        (RecursionError("maximum recursion depth exceeded"), "54001", False),
        (FramingError("invalid message length"), "08P01", True),
        (FatalError("no", sqlstate="28000"), "28000", True),
    ],
)
def test_failures_have_their_sqlstate_and_weight(error, sqlstate, fatal):
    assert dict(error_response(error, FATAL).fields)["C"] == sqlstate
    assert is_fatal(error) is fatal
