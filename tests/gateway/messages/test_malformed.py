"""What is refused, and in which words: PostgreSQL's own."""

import pytest

from pgwire_gateway.messages import (
    AuthenticationOk,
    AuthenticationRequest,
    Bind,
    Close,
    CommandComplete,
    CopyDone,
    DataRow,
    Describe,
    ErrorResponse,
    Execute,
    Flush,
    FramingError,
    FunctionCall,
    InvalidTextError,
    MalformedMessageError,
    MessageLengthError,
    NegotiateProtocolVersion,
    Parse,
    PasswordMessage,
    ProtocolVersion,
    Query,
    ReadyForQuery,
    SASLInitialResponse,
    SSLRequest,
    StartupMessage,
    StartupPacket,
    Sync,
    Terminate,
    UntranslatableTextError,
)

MISPLACED = "invalid startup packet layout: expected terminator as last byte"


@pytest.mark.parametrize(
    ("message_class", "body", "complaint"),
    [
        (Query, b"", "invalid string in message"),
        (Query, b"SELECT", "invalid string in message"),
        (Query, b"SELECT\x00;", "invalid message format"),
        (Sync, b"\x00", "invalid message format"),
        (Flush, b"x", "invalid message format"),
        (Parse, b"s\x00SELECT\x00", "insufficient data left in message"),
        (Parse, b"\x00\x00\x00\x02\x00\x00\x00\x17", "insufficient data left in message"),
        (Parse, b"\x00\x00\xff\xff", "insufficient data left in message"),
        (Parse, b"s", "invalid string in message"),
        (Bind, b"\x00\x00\x00\x00\x00\x01\x00\x00\x00\x05abc", "insufficient data left in message"),
        (Bind, b"\x00\x00\x00\x00\x00\x01\xff\xff\xff\xfe", "insufficient data left in message"),
        (Bind, b"\x00\x00\x00\x00\x00\x01\x7f\xff\xff\xff", "insufficient data left in message"),
        (Bind, b"\x00\x00\x00\x00\x00\x00", "insufficient data left in message"),
        (Bind, b"\x00\x00\x00\x00\x00\x00\x00\x00\x00", "invalid message format"),
        (
            Bind,
            b"\x00\x00\x00\x02\x00\x00\x00\x01\x00\x03",
            "bind message has 2 parameter formats but 3 parameters",
        ),
        (
            Bind,
            b"\x00\x00\x00\x02\x00\x00\x00\x01\x00\x00",
            "bind message has 2 parameter formats but 0 parameters",
        ),
        (Describe, b"", "no data left in message"),
        (Describe, b"S", "invalid string in message"),
        (Describe, b"X\x00", "invalid DESCRIBE message subtype 88"),
        (Describe, b"X\x00\x00", "invalid message format"),
        (Close, b"\x00\x00", "invalid CLOSE message subtype 0"),
        (Execute, b"\x00\x00\x00", "insufficient data left in message"),
        (
            FunctionCall,
            b"\x00\x00\x00\x01\x00\x02\x00\x00\x00\x00\x00\x01",
            "function call message contains 2 argument formats but 1 arguments",
        ),
        (FunctionCall, b"\x00\x00\x00\x01\x00\x00\x00\x00", "insufficient data left in message"),
        (PasswordMessage, b"secret", "invalid string in message"),
        (SASLInitialResponse, b"X\x00\x00\x00\x00\x09abc", "insufficient data left in message"),
        (StartupPacket, b"", "insufficient data left in message"),
        (StartupPacket, b"\x00\x03\x00\x00", MISPLACED),
        (StartupPacket, b"\x00\x03\x00\x00user", MISPLACED),
        (StartupPacket, b"\x00\x03\x00\x00user\x00ada", MISPLACED),
        (StartupPacket, b"\x00\x03\x00\x00user\x00ada\x00", MISPLACED),
        (StartupPacket, b"\x00\x03\x00\x00user\x00\x00", MISPLACED),
        (StartupPacket, b"\x00\x03\x00\x00user\x00ada\x00\x00\x00", MISPLACED),
        (StartupPacket, b"\x00\x03\x00\x00\x00user\x00ada\x00\x00", MISPLACED),
        (StartupPacket, b"\x00\x03\x00\x00user\x00ada\x00\x00\x00x\x00\x00", MISPLACED),
        (SSLRequest, b"\x00\x03\x00\x00\x00", "unexpected startup packet 3.0"),
        (AuthenticationRequest, b"\x00\x00\x00\x63", "unexpected authentication request 99"),
        (AuthenticationOk, b"\x00\x00\x00\x03", "unexpected authentication request 3"),
        (AuthenticationOk, b"\x00\x00\x00\x00\x00", "invalid message format"),
        (ReadyForQuery, b"?", "invalid transaction status 63"),
        (ErrorResponse, b"SERROR\x00", "no data left in message"),
        (ErrorResponse, b"\xffERROR\x00\x00", "invalid field type 255"),
        (DataRow, b"\x00\x01", "insufficient data left in message"),
        (
            NegotiateProtocolVersion,
            b"\x00\x03\x00\x02\x7f\xff\xff\xff",
            "invalid string in message",
        ),
        (CommandComplete, b"SELECT", "invalid string in message"),
    ],
)
def test_body_that_breaks_the_protocol_is_refused(message_class, body, complaint):
    with pytest.raises(MalformedMessageError) as refusal:
        message_class.decode(body)
    assert str(refusal.value) == complaint
    assert not isinstance(refusal.value, FramingError | InvalidTextError)


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"\x00", "invalid length of cancel request packet"),
        (b"\x00\x00\x00\x01", "invalid length of cancel key in cancel request packet"),
        (b"\x00\x00\x00\x01" + bytes(257), "invalid length of cancel key in cancel request packet"),
    ],
)
def test_cancel_request_of_wrong_length_deserves_no_answer(body, complaint):
    with pytest.raises(MessageLengthError) as refusal:
        StartupPacket.decode(b"\x04\xd2\x16\x2e" + body)
    assert str(refusal.value) == complaint


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"\xff", "0xff"),
        (b"a\x80b", "0x80"),
        (b"\xc3", "0xc3"),
        (b"\xc3(", "0xc3 0x28"),
        (b"\xc0\x80", "0xc0 0x80"),
        (b"\xe2\x82", "0xe2 0x82"),
        (b"\xe2(\xa1z", "0xe2 0x28 0xa1"),
        (b"\xed\xa0\x80", "0xed 0xa0 0x80"),
        (b"ok \xf0\x9f\x98 no", "0xf0 0x9f 0x98 0x20"),
        (b"\xf4\x90\x80\x80", "0xf4 0x90 0x80 0x80"),
        (b"\xf8\x88\x80\x80\x80", "0xf8"),
    ],
)
def test_text_that_is_not_utf8_is_told_apart_from_a_protocol_violation(raw, shown):
    with pytest.raises(InvalidTextError) as refusal:
        Query.decode(raw + b"\x00")
    assert str(refusal.value) == f'invalid byte sequence for encoding "UTF8": {shown}'


def test_bytes_and_characters_without_equivalent_are_named_as_postgresql_does():
    with pytest.raises(UntranslatableTextError) as refusal:
        Query.decode(b"a\x81\x00", "cp1252")
    assert str(refusal.value) == (
        'character with byte sequence 0x81 in encoding "CP1252" has no equivalent in encoding'
        ' "UTF8"'
    )
    with pytest.raises(UntranslatableTextError) as refusal:
        Query("a€é").encode("cp1251")
    assert str(refusal.value) == (
        'character with byte sequence 0xc3 0xa9 in encoding "UTF8" has no equivalent in encoding'
        ' "CP1251"'
    )


def test_invalid_text_in_startup_parameters_is_refused():
    with pytest.raises(InvalidTextError):
        StartupPacket.decode(b"\x00\x03\x00\x00user\x00\xff\x00\x00")


def test_parameters_of_an_unknown_major_version_are_left_alone():
    packet = StartupPacket.decode(b"\x00\x02\x00\x00whatever version two had")
    assert packet == StartupMessage(ProtocolVersion(2, 0))


def test_last_of_repeated_startup_parameters_counts():
    packet = StartupMessage(ProtocolVersion(3, 0), (("user", "a"), ("user", "b")))
    assert packet.parameter("user") == "b"
    assert packet.parameter("database") is None


@pytest.mark.parametrize("message_class", [Terminate, CopyDone])
def test_body_postgresql_does_not_look_at_may_hold_anything(message_class):
    assert message_class.decode(b"anything") == message_class()


def test_string_with_zero_byte_cannot_be_sent():
    with pytest.raises(ValueError, match="zero byte"):
        CommandComplete("SELECT\x00 1").encode()


@pytest.mark.parametrize("count", [2, 65535])
def test_counts_are_unsigned(count):
    body = b"\x00\x00" + count.to_bytes(2, "big") + bytes(4 * count)
    assert Parse.decode(body).parameter_type_oids == (0,) * count
