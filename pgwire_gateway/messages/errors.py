"""What can be wrong with bytes a peer sends; plain exceptions that know no SQLSTATE.

The words are PostgreSQL's own, so that a client sees the error it would see from PostgreSQL.
"""


class MalformedMessageError(Exception):
    """A message whose content breaks the protocol; the next message can still be found."""


class FramingError(MalformedMessageError):
    """Bytes in which the next message cannot be found: the connection has to be closed."""


class MessageLengthError(FramingError):
    """A length no message can have; PostgreSQL closes the connection without a word."""


class InvalidTextError(MalformedMessageError):
    """A string that is not valid in the client's encoding; the message is well-formed otherwise.

    Where MalformedMessageError is a protocol violation (08P01), this is a character that is not in
    the repertoire (22021).
    """

    def __init__(self, message: str, text: bytes = b"") -> None:
        super().__init__(message)
        self.text = text
        """The string."""


class UntranslatableTextError(InvalidTextError):
    """A character that one encoding has and the other one has not (22P05)."""
