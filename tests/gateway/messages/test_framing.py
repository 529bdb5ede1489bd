"""Bytes to frames: order, limits, phases, and what ends a connection."""

import pytest

from pgwire_gateway.messages import (
    BackendFrameReader,
    CopyData,
    FramingError,
    FrontendFrameReader,
    MalformedMessageError,
    MessageLengthError,
    PasswordMessage,
    ProtocolVersion,
    Query,
    SASLResponse,
    SSLRequest,
    StartupMessage,
    Sync,
)
from pgwire_gateway.messages.base import PQ_LARGE_MESSAGE_LIMIT, PQ_SMALL_MESSAGE_LIMIT
from tests.gateway.messages import samples


def session_reader(data=b"", **limits):
    reader = FrontendFrameReader(**limits)
    reader.expect_session()
    reader.feed(data)
    return reader


def header(type_byte, length):
    return type_byte + length.to_bytes(4, "big", signed=True)


def test_messages_come_out_in_order():
    wire = b"".join(wire for _, wire in samples.SESSION_MESSAGES)
    reader = session_reader(wire)
    assert list(iter(reader.next_message, None)) == [m for m, _ in samples.SESSION_MESSAGES]
    assert reader.buffered_bytes == 0


def test_incomplete_message_waits_for_its_last_byte():
    wire = Query("SELECT 1").encode()
    reader = session_reader()
    for position in range(len(wire)):
        assert reader.next_message() is None
        reader.feed(wire[position : position + 1])
    assert reader.next_message() == Query("SELECT 1")
    assert reader.next_message() is None


def test_frame_is_not_looked_into_before_it_is_decoded():
    reader = session_reader(b"Q\x00\x00\x00\x05x" + Sync().encode())
    malformed = reader.next_frame()
    assert malformed.message_class is Query
    assert reader.next_message() == Sync()
    with pytest.raises(MalformedMessageError):
        malformed.decode()


def test_message_behind_a_malformed_one_is_found():
    reader = session_reader(b"Q\x00\x00\x00\x05x" + Sync().encode())
    with pytest.raises(MalformedMessageError):
        reader.next_message()
    assert reader.next_message() == Sync()


@pytest.mark.parametrize("type_byte", [b"\x00", b"\x16", b"G", b"p", b"q", b"Z", b"\xff"])
def test_unknown_type_byte_ends_the_connection_before_the_length_is_there(type_byte):
    with pytest.raises(FramingError) as refusal:
        session_reader(type_byte).next_frame()
    assert str(refusal.value) == f"invalid frontend message type {type_byte[0]}"


def test_framing_error_is_final():
    reader = session_reader(Sync().encode() + b"?" + Sync().encode())
    assert reader.next_message() == Sync()
    for _ in range(3):
        with pytest.raises(FramingError, match="invalid frontend message type 63"):
            reader.next_message()
        reader.feed(Sync().encode())


def test_length_error_stays_one():
    reader = session_reader(header(b"Q", 0))
    for _ in range(2):
        with pytest.raises(MessageLengthError):
            reader.next_frame()


@pytest.mark.parametrize("type_byte", [b"Q", b"P", b"B", b"F", b"d"])
@pytest.mark.parametrize("length", [-1, 0, 3, PQ_LARGE_MESSAGE_LIMIT + 1, 2**31 - 1])
def test_long_messages_have_the_large_limit(type_byte, length):
    assert session_reader(header(type_byte, PQ_LARGE_MESSAGE_LIMIT)).next_frame() is None
    with pytest.raises(MessageLengthError, match=r"^invalid message length$"):
        session_reader(header(type_byte, length)).next_frame()


@pytest.mark.parametrize("type_byte", [b"C", b"D", b"E", b"H", b"S", b"X", b"c", b"f"])
@pytest.mark.parametrize("length", [-(2**31), 3, PQ_SMALL_MESSAGE_LIMIT + 1])
def test_short_messages_have_the_small_limit(type_byte, length):
    assert session_reader(header(type_byte, PQ_SMALL_MESSAGE_LIMIT)).next_frame() is None
    with pytest.raises(MessageLengthError, match=r"^invalid message length$"):
        session_reader(header(type_byte, length)).next_frame()


def test_limits_are_those_of_postgresql():
    assert PQ_SMALL_MESSAGE_LIMIT == 10_000
    assert PQ_LARGE_MESSAGE_LIMIT == 1_073_741_822


def test_configured_limit_holds_for_long_messages_only():
    limit = PQ_SMALL_MESSAGE_LIMIT + 1_000
    assert session_reader(header(b"Q", limit), max_message_size=limit).next_frame() is None
    with pytest.raises(MessageLengthError, match="invalid message length"):
        session_reader(header(b"Q", limit + 1), max_message_size=limit).next_frame()
    with pytest.raises(MessageLengthError, match="invalid message length"):
        session_reader(header(b"S", limit), max_message_size=limit).next_frame()


@pytest.mark.parametrize("length", [-1, 0, 4, 7, 10_005, 0x16030102])
def test_startup_packet_has_limits_of_its_own(length):
    reader = FrontendFrameReader()
    reader.feed(length.to_bytes(4, "big", signed=True))
    with pytest.raises(MessageLengthError, match=r"^invalid length of startup packet$"):
        reader.next_frame()


def test_longest_startup_packet():
    value = "x" * (10_000 - 4 - len("user\x00\x00\x00"))
    packet = StartupMessage(ProtocolVersion(3, 0), (("user", value),))
    reader = FrontendFrameReader()
    reader.feed(packet.encode())
    assert reader.next_message() == packet


def test_startup_phase_lasts_until_told_otherwise():
    packet = StartupMessage(ProtocolVersion(3, 0), (("user", "ada"),))
    reader = FrontendFrameReader()
    reader.feed(SSLRequest().encode() + packet.encode() + Sync().encode())
    assert reader.next_message() == SSLRequest()
    assert reader.buffered_bytes == len(packet.encode() + Sync().encode())
    assert reader.next_message() == packet
    reader.expect_session()
    assert reader.next_message() == Sync()


@pytest.mark.parametrize(
    ("response", "complaint"),
    [
        (PasswordMessage, "expected password response, got message type 81"),
        (SASLResponse, "expected SASL response, got message type 81"),
    ],
)
def test_authentication_takes_nothing_but_its_response(response, complaint):
    reader = FrontendFrameReader()
    reader.expect_authentication(response)
    reader.feed(Query("SELECT 1").encode())
    with pytest.raises(FramingError) as refusal:
        reader.next_frame()
    assert str(refusal.value) == complaint


@pytest.mark.parametrize(("response", "limit"), [(PasswordMessage, 65_535), (SASLResponse, 1_024)])
def test_authentication_responses_have_limits_of_their_own(response, limit):
    reader = FrontendFrameReader()
    reader.expect_authentication(response)
    reader.feed(header(b"p", limit))
    assert reader.next_frame() is None
    reader = FrontendFrameReader()
    reader.expect_authentication(response)
    reader.feed(header(b"p", limit + 1))
    with pytest.raises(MessageLengthError, match=r"^invalid message length$"):
        reader.next_frame()


def test_large_message_in_small_pieces():
    data = bytes(range(256)) * 4_096
    wire = CopyData(data).encode() * 2
    reader = session_reader()
    received = []
    for position in range(0, len(wire), 8_192):
        reader.feed(wire[position : position + 8_192])
        received.extend(iter(reader.next_message, None))
    assert received == [CopyData(data)] * 2


def test_server_messages_of_unknown_type_are_refused():
    reader = BackendFrameReader()
    reader.feed(b"?")
    with pytest.raises(FramingError, match=r"^invalid backend message type 63$"):
        reader.next_frame()
    reader = BackendFrameReader()
    reader.feed(b"Z\x00\x00\x00\x00")
    with pytest.raises(MessageLengthError, match=r"^invalid message length$"):
        reader.next_frame()
