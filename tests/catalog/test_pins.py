"""Whatever settings a client has, values have the same texts on their way into journals and out.

Some functions of the bookkeeping return SQL that turns values into texts, or texts into values.
Those that run it have the settings that this depends on, or are called by others that have them.
"""

import re
from dataclasses import dataclass
from typing import Final

import pytest

from catalog.bookkeeping.tail import PLAIN_SETTINGS
from catalog.connection.session_settings import ADMINISTRATOR
from tests.support.fix_catalog import Client, Inspector

pytestmark = pytest.mark.catalog

WRITTEN: Final = frozenset(name for name, _ in PLAIN_SETTINGS)
"""What the texts of values depend on."""

READ: Final = frozenset({"array_nulls", "intervalstyle", "xmloption"})
"""What values of such texts depend on: those of dates are ISO's, with zones."""

WRITERS: Final = frozenset({"transfer_expression", "tail_expression"})
"""What returns SQL that turns values into texts."""

READERS: Final = frozenset({"row_parts"})
"""What returns SQL that turns texts into values."""

MAKERS: Final = frozenset({"make_capture", "make_proposing", "make_thawing"})
"""What makes functions of single tables of such SQL, which have settings of their own."""

HOT_KEYS: Final = "types of keys of hot rows: one text of each value by ISO, UTC and hexadecimal"
NUMBERS: Final = "transfer forms of types of keys, or of sources of keys: they depend on none"
TIERED: Final = "of what depends on dates and zones tiered tables have no columns"
NO_TEXTS: Final = "it reads texts, and writes none"

DATES: Final = frozenset({"datestyle", "timezone"})

WRITES_WITHOUT: Final[dict[str, tuple[frozenset[str], str]]] = {
    "add_rows": (DATES | {"bytea_output"}, NO_TEXTS),
    "answered_keys": (frozenset({"extra_float_digits", "intervalstyle"}), HOT_KEYS),
    "append": (DATES, TIERED),
    "capture": (DATES, TIERED),
    "capture_thawed": (DATES, TIERED),
    "change_leaf": (DATES | {"bytea_output"}, NO_TEXTS),
    "come_since": (WRITTEN, NUMBERS),
    "locked_keys": (frozenset({"extra_float_digits", "intervalstyle"}), HOT_KEYS),
    "open_drain": (
        WRITTEN,
        "a cursor: who fetches from it sets them (catalog/bookkeeping/tail.py)",
    ),
    "open_tail": (WRITTEN, "a cursor of the gateway's own connections"),
    "passed": (WRITTEN, NO_TEXTS),
    "source_rows": (WRITTEN, NUMBERS),
    "thaw": (DATES | {"bytea_output", "extra_float_digits"}, NO_TEXTS),
    "unsearched": (WRITTEN, NUMBERS),
    "warm": (WRITTEN, NO_TEXTS),
}
"""Functions that run such SQL without some of these settings, and why they need not have them."""

SIZES: Final = frozenset({"row_size"})
"""Tells how many bytes texts have: no text leaves it."""


@dataclass(frozen=True)
class Function:
    body: str
    settings: frozenset[str]
    is_called: bool
    """Whether clients' sessions call it."""


@pytest.fixture
def functions(inspector: Inspector) -> dict[str, Function]:
    """The functions of the bookkeeping, but for those of single tables."""
    rows = inspector.run(
        "SELECT p.proname, pg_get_functiondef(p.oid), coalesce(p.proconfig::text, ''),"
        " 'code' = (p.proargnames)[1] FROM pg_proc p"
        " WHERE p.pronamespace = 'pg_journal'::regnamespace AND p.prokind = 'f'"
        " AND p.proname !~ '_\\d+$'"
    )
    return {
        str(name): Function(
            re.sub(r"--[^\n]*", "", str(text)),
            frozenset(re.findall(r"(\w+)=", str(settings).lower())),
            called == "t",
        )
        for name, text, settings, called in rows
    }


def missing(
    functions: dict[str, Function], makers: frozenset[str], needed: frozenset[str]
) -> dict[str, frozenset[str]]:
    """Return the functions that run such SQL and that nobody has given all settings, with those."""
    callees = {
        name: set(re.findall(r"\b([a-z_]+)\(", function.body)) - {name}
        for name, function in functions.items()
    }
    reached, waiting = set(makers), list(makers)
    found: dict[str, frozenset[str]] = {}
    while waiting:
        made = waiting.pop()
        for name, function in functions.items():
            if made not in callees[name] or name in reached | MAKERS | SIZES:
                continue
            if needed <= function.settings:
                continue
            reached.add(name)
            waiting.append(name)
            is_needed = any(name in others for others in callees.values())
            if function.is_called or not is_needed:
                found[name] = needed - function.settings
    return found


def test_texts_of_values_do_not_depend_on_settings_of_clients(
    functions: dict[str, Function],
) -> None:
    expected = {name: settings for name, (settings, _) in WRITES_WITHOUT.items()}
    assert missing(functions, WRITERS, WRITTEN) == expected


def test_values_of_texts_do_not_depend_on_settings_of_clients(
    functions: dict[str, Function],
) -> None:
    assert missing(functions, READERS, READ) == {}


@pytest.mark.parametrize("name", ["thaw_keys", "heat_keys", "heat_unwaited"])
def test_who_makes_rows_hot_reads_their_texts(functions: dict[str, Function], name: str) -> None:
    """What they run is in functions of single tables."""
    assert functions[name].settings >= READ


def test_the_gateways_own_connections_have_all_of_them() -> None:
    assert {name.lower() for name in ADMINISTRATOR} >= WRITTEN | READ


def test_functions_of_single_tables_have_them(client: Client, inspector: Inspector) -> None:
    client.run("CREATE TYPE spans AS RANGE (SUBTYPE = interval)")
    client.run("CREATE TABLE t (id int PRIMARY KEY, v spans)")
    relid = client.relid("t")
    inspector.run(
        f"SELECT pg_journal.make_proposing({relid}), pg_journal.make_capture({relid}, false)"
    )
    rows = inspector.run(
        "SELECT proname, proconfig::text FROM pg_proc"
        f" WHERE pronamespace = 'pg_journal'::regnamespace AND proname ~ '_{relid}$' ORDER BY 1"
    )
    found = {str(name): set(re.findall(r"(\w+)=", str(text).lower())) for name, text in rows}
    assert found.keys() >= {f"capture_{relid}", f"propose_{relid}"}
    assert [name for name, settings in found.items() if not settings >= WRITTEN] == []


SETTINGS: Final = (
    "SET intervalstyle = 'sql_standard'",
    "SET bytea_output = 'escape'",
    "SET extra_float_digits = 0",
    "SET datestyle = 'SQL, DMY'",
    "SET timezone = 'Asia/Kolkata'",
)

VALUES: Final = {
    "interval": ("[-1 days -02:03:00,+1 day)", '["-1 days -02:03:00","1 day")'),
    "bytea": (r"[\\x00ff,\\x01)", r'["\\x00ff","\\x01")'),
    "float8": ("[0.1,0.30000000000000004)", "[0.1,0.30000000000000004)"),
}
"""A range of each type, and its text."""


@pytest.mark.parametrize("subtype", VALUES)
@pytest.mark.parametrize("way", ["INSERT", "appended"])
def test_tails_hold_the_same_texts(client: Client, subtype: str, way: str) -> None:
    given, text = VALUES[subtype]
    client.run(f"CREATE TYPE spans AS RANGE (SUBTYPE = {subtype})")
    client.run("CREATE TABLE t (id int PRIMARY KEY, v spans)")
    for statement in SETTINGS:
        client.run(statement)
    if way == "INSERT":
        client.insert("t", f"INSERT INTO t VALUES (1, '{given}')")
    else:
        relid = client.relid("t")
        versions, _ = client.session.writes.begin_write([relid], [])
        client.session.journals.append(relid, versions[relid], [["1", text]])
        client.session.transaction.commit()
    assert client.tail("t") == [[1, text]]
