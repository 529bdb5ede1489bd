"""Hostile input: whatever the bytes, decoding ends in a message or in the protocol's error."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgwire_gateway.messages import (
    AuthenticationRequest,
    BackendFrameReader,
    FramingError,
    FrontendFrameReader,
    MalformedMessageError,
    PasswordMessage,
    SASLInitialResponse,
    SASLResponse,
    StartupPacket,
)
from pgwire_gateway.messages.registry import BACKEND_MESSAGES, FRONTEND_MESSAGES
from tests.gateway.messages import samples

DECODABLE = sorted(
    {
        *FRONTEND_MESSAGES.values(),
        *BACKEND_MESSAGES.values(),
        AuthenticationRequest,
        PasswordMessage,
        SASLInitialResponse,
        SASLResponse,
        StartupPacket,
    },
    key=lambda message_class: message_class.__name__,
)

# Short bodies of bytes that matter: zero, small counts, -1, letters of subtypes, broken UTF-8.
bodies = st.lists(
    st.one_of(
        st.sampled_from(
            [
                b"\0",
                b"\0\0",
                b"\0\1",
                b"\0\2",
                b"\0\0\0\0",
                b"\0\0\0\1",
                b"\0\0\0\5",
                b"\xff\xff",
                b"\xff\xff\xff\xff",
                b"\0\3\0\0",
                b"\4\xd2\x16\x2e",
                b"S",
                b"P",
                b"ab\0",
                b"\xc3",
            ]
        ),
        st.binary(max_size=8),
    ),
    max_size=10,
).map(b"".join)


@pytest.mark.parametrize("message_class", DECODABLE, ids=lambda c: c.__name__)
@settings(max_examples=40)
@given(body=bodies)
def test_decoding_anything_gives_a_message_or_the_protocol_error(message_class, body):
    try:
        message = message_class.decode(body)
    except MalformedMessageError:
        return
    wire = message.encode()
    assert type(message).decode(wire[len(message.type_byte) + 4 :]) == message


def outcome(reader, chunks):
    """Return what a reader gives when it is fed these chunks, up to where it gives up."""
    events = []
    for chunk in chunks:
        reader.feed(chunk)
        while True:
            try:
                message = reader.next_message()
            except FramingError as error:
                return [*events, ("closed", str(error))]
            except MalformedMessageError as error:
                events.append(("refused", str(error)))
                continue
            if message is None:
                break
            events.append(message)
    return [*events, ("waiting", reader.buffered_bytes)]


@st.composite
def chunked(draw, wires):
    """Draw a stream of messages, perhaps with garbage, and a way to cut it."""
    parts = draw(st.lists(st.one_of(st.sampled_from(wires), st.binary(max_size=6)), max_size=8))
    stream = b"".join(parts)
    cuts = sorted(draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    edges = [0, *cuts, len(stream)]
    return stream, [stream[a:b] for a, b in itertools.pairwise(edges)]


def session_reader():
    reader = FrontendFrameReader()
    reader.expect_session()
    return reader


@pytest.mark.parametrize(
    ("reader", "wires"),
    [
        (FrontendFrameReader, [wire for _, wire in samples.STARTUP_PACKETS]),
        (
            session_reader,
            [wire for _, wire in samples.SESSION_MESSAGES + samples.BOTH_DIRECTIONS],
        ),
        (
            BackendFrameReader,
            [wire for _, wire in samples.BACKEND_MESSAGES + samples.BOTH_DIRECTIONS],
        ),
    ],
    ids=["startup", "session", "backend"],
)
@settings(max_examples=150)
@given(data=st.data())
def test_pieces_of_a_stream_mean_what_the_whole_means(reader, wires, data):
    stream, pieces = data.draw(chunked(wires))
    assert outcome(reader(), pieces) == outcome(reader(), [stream])
