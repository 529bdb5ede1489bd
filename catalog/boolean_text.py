"""What a text means as a boolean: PostgreSQL's input of the type (chapter 8.6)."""

from typing import Final

from catalog.errors import GatewayError
from catalog.pg.sqlstate import INVALID_TEXT_REPRESENTATION

_WORDS: Final = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def parse(text: str) -> bool:
    """Return what a text means; words can be cut short as long as they are told apart.

    Raises:
        GatewayError: 22P02 for anything else.
    """
    given = text.strip(" \t\n\r\v\f").lower()
    if given in {"1", "0"}:
        return given == "1"
    meant = {value for word, value in _WORDS.items() if given and word.startswith(given)}
    if len(meant) != 1:
        raise GatewayError(
            f'invalid input syntax for type boolean: "{text}"', sqlstate=INVALID_TEXT_REPRESENTATION
        )
    return meant.pop()
