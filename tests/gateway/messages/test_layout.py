"""Each message against its bytes in both directions of translation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgwire_gateway.messages import (
    AuthenticationRequest,
    BackendFrameReader,
    BackendMessage,
    FrontendFrameReader,
    FrontendMessage,
    Message,
    StartupPacket,
    decode_startup_packet,
)
from pgwire_gateway.messages.buffer import Writer
from pgwire_gateway.messages.registry import BACKEND_MESSAGES, FRONTEND_MESSAGES
from pgwire_gateway.messages.row_data import (
    DataRow,
    FieldDescription,
    RowDescription,
    encode_data_rows,
)
from tests.gateway.messages import samples

ALL = [
    *samples.STARTUP_PACKETS,
    *samples.AUTHENTICATION_RESPONSES,
    *samples.SESSION_MESSAGES,
    *samples.BOTH_DIRECTIONS,
    *samples.BACKEND_MESSAGES,
]


def _name(value: object) -> str:
    return type(value).__name__ if isinstance(value, Message) else ""


@pytest.mark.parametrize(("message", "wire"), ALL, ids=_name)
def test_message_encodes_to_the_documented_bytes(message, wire):
    assert message.encode() == wire


@pytest.mark.parametrize(("message", "wire"), ALL, ids=_name)
def test_length_word_counts_itself_and_the_body(message, wire):
    start = len(message.type_byte)
    assert int.from_bytes(wire[start : start + 4], "big") == len(wire) - start


@pytest.mark.parametrize(("message", "wire"), ALL, ids=_name)
def test_body_decodes_to_the_message(message, wire):
    assert type(message).decode(wire[len(message.type_byte) + 4 :]) == message


@pytest.mark.parametrize(("packet", "wire"), samples.STARTUP_PACKETS, ids=_name)
def test_first_packet_is_told_by_its_code(packet, wire):
    reader = FrontendFrameReader()
    reader.feed(wire)
    assert reader.next_message() == packet
    assert decode_startup_packet(wire[4:]) == packet


@pytest.mark.parametrize(("response", "wire"), samples.AUTHENTICATION_RESPONSES, ids=_name)
def test_authentication_response_is_what_was_asked_for(response, wire):
    reader = FrontendFrameReader()
    reader.expect_authentication(type(response))
    reader.feed(wire)
    assert reader.next_message() == response


@pytest.mark.parametrize(
    ("message", "wire"), [*samples.SESSION_MESSAGES, *samples.BOTH_DIRECTIONS], ids=_name
)
def test_session_message_is_told_by_its_type_byte(message, wire):
    reader = FrontendFrameReader()
    reader.expect_session()
    reader.feed(wire)
    assert reader.next_message() == message


@pytest.mark.parametrize(
    ("message", "wire"), [*samples.BACKEND_MESSAGES, *samples.BOTH_DIRECTIONS], ids=_name
)
def test_backend_message_is_told_by_its_type_byte(message, wire):
    reader = BackendFrameReader()
    reader.feed(wire)
    assert reader.next_message() == message


def test_samples_leave_no_message_out():
    sampled = {type(message) for message, _ in ALL}
    registered = {*FRONTEND_MESSAGES.values(), *BACKEND_MESSAGES.values()}
    kinds = {*StartupPacket.__subclasses__(), *_concrete(AuthenticationRequest)}
    assert registered - {AuthenticationRequest} <= sampled
    assert {kind.__name__ for kind in kinds} <= {kind.__name__ for kind in sampled}


def _concrete(base):
    for kind in base.__subclasses__():
        yield from _concrete(kind)
        if "code" in vars(kind):
            yield kind


@pytest.mark.parametrize(("message", "wire"), ALL, ids=_name)
def test_message_is_an_immutable_value(message, wire):
    assert wire
    assert hash(message) == hash(type(message).decode(wire[len(message.type_byte) + 4 :]))
    with pytest.raises((AttributeError, TypeError)):
        message.anything = 1


def test_only_copy_messages_travel_in_both_directions():
    both = {
        message.__name__
        for message in (*FRONTEND_MESSAGES.values(), *BACKEND_MESSAGES.values())
        if issubclass(message, FrontendMessage) and issubclass(message, BackendMessage)
    }
    assert both == {"CopyData", "CopyDone"}


def test_text_follows_the_encoding_of_the_client():
    from_latin1 = FrontendFrameReader()
    from_latin1.expect_session()
    from_latin1.feed(b"Q\x00\x00\x00\x06\xe4\x00")
    message = from_latin1.next_message("latin-1")
    assert message.query_string == "ä"
    assert message.encode("latin-1") == b"Q\x00\x00\x00\x06\xe4\x00"


@pytest.mark.parametrize("secret", ["password", "secret_key", "data"])
def test_representation_hides_secrets(secret):
    shown = [
        repr(message)
        for message, _ in [*samples.STARTUP_PACKETS, *samples.AUTHENTICATION_RESPONSES]
        if hasattr(message, secret)
    ]
    assert shown
    assert not any(secret in text for text in shown)


@given(
    st.lists(
        st.builds(
            FieldDescription,
            st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
            st.integers(0, 2**32 - 1),
            st.integers(-(2**15), 2**15 - 1),
            st.integers(0, 2**32 - 1),
            st.integers(-(2**15), 2**15 - 1),
            st.integers(-(2**31), 2**31 - 1),
            st.integers(0, 1),
        )
    )
)
def test_row_description_is_encoded_as_its_fields_are_written(fields):
    message = RowDescription(tuple(fields))
    writer = Writer()
    message.write_fields(writer)
    assert message.encode()[5:] == writer.getvalue()


@given(st.lists(st.lists(st.none() | st.binary(max_size=20), max_size=5)))
def test_rows_encoded_in_one_go_are_those_encoded_one_by_one(rows):
    assert encode_data_rows(rows) == b"".join(DataRow(tuple(row)).encode() for row in rows)
