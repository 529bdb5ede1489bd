"""Tiered tables that reference each other and have UNIQUE columns, and what they have to hold.

A team has members and guests. Members keep their team from going, guests go with theirs, and lose
their host when that member goes. Keys of some teams change, and what references them follows.

Statements tell which rows went and which came, so teams and members are the sum of what was
committed. What a cascade takes away nobody is told: a guest may be missing if its team can go.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import psycopg

from tests.support.hot_load import AWAY, Effects, Image

STEADY_TEAMS, MOVING_TEAMS, LOOSE_TEAMS = range(1, 5), range(5, 9), range(9, 15)
"""Those that stay as they are; whose keys change; that come and go."""

LASTING_TEAMS = (*STEADY_TEAMS, *MOVING_TEAMS)

STEADY_MEMBERS, LOOSE_MEMBERS = range(1, 5), range(5, 25)
"""Those that stay in the team of their number; that come and go."""

BADGES, SEATS = range(100, 120), range(200, 225)
"""Values that rows take from each other."""

OTHER_SEATS = 1_000
"""What is added to seats, and taken away again."""

FIRST_FOUNDED, FOUNDED, FOUNDED_BADGE = 20_000, 40, 10_000_000
"""The first of teams that come and go many at once, their number, what their badges are more."""

RACED = 900_000
"""The first of rows that sessions fight for, whoever wins."""

SCHEMA = f"""
CREATE SEQUENCE guest_numbers;
CREATE TABLE teams (id integer PRIMARY KEY, badge integer NOT NULL UNIQUE,
                    n integer NOT NULL CHECK (n >= 0));
CREATE TABLE members (id integer PRIMARY KEY,
                      team integer NOT NULL REFERENCES teams ON UPDATE CASCADE,
                      seat integer UNIQUE, n integer NOT NULL);
CREATE TABLE guests (id integer PRIMARY KEY,
                     team integer NOT NULL REFERENCES teams ON UPDATE CASCADE ON DELETE CASCADE,
                     host integer REFERENCES members ON DELETE SET NULL, n integer NOT NULL);
INSERT INTO teams SELECT g, {BADGES[0]} + g, 0 FROM generate_series(1, {LASTING_TEAMS[-1]}) g;
INSERT INTO members SELECT g, g, {SEATS[0]} + g, 0
    FROM generate_series(1, {STEADY_MEMBERS[-1]}) g
"""

COLUMNS = {
    "teams": ("id", "badge", "n"),
    "members": ("id", "team", "seat", "n"),
    "guests": ("id", "team", "n"),
}

_REPLAYED = """(
    SELECT * FROM (
        SELECT *, row_number() OVER (PARTITION BY id ORDER BY version_number DESC) AS age
        FROM {table}_journal) versions
    WHERE age = 1 AND subsequent_version_number IS NULL)"""
"""What a journal makes of its table."""

_VIOLATIONS = """
    SELECT (SELECT count(*) - count(DISTINCT id) FROM {teams} t),
           (SELECT count(*) - count(DISTINCT badge) FROM {teams} t),
           (SELECT count(*) - count(DISTINCT id) FROM {members} m),
           (SELECT count(seat) - count(DISTINCT seat) FROM {members} m),
           (SELECT count(*) FROM {members} m LEFT JOIN {teams} t ON t.id = m.team
             WHERE t.id IS NULL),
           (SELECT count(*) FROM {guests} g LEFT JOIN {teams} t ON t.id = g.team
             WHERE t.id IS NULL),
           (SELECT count(*) FROM {guests} g LEFT JOIN {members} m ON m.id = g.host
             WHERE g.host IS NOT NULL AND m.id IS NULL)"""

NO_VIOLATION = (0,) * 7

VIOLATIONS = _VIOLATIONS.format(**dict(zip(COLUMNS, COLUMNS, strict=True)))
"""Counts the rows too many of each unique key, and those that reference what there is not."""

REPLAYED_VIOLATIONS = _VIOLATIONS.format(
    **{table: _REPLAYED.format(table=table) for table in COLUMNS}
)
"""The same by what journals say."""

Rows = Mapping[str, Sequence[Image]]


def home(team: int) -> int:
    """Return which team it is that has this key."""
    return team - AWAY if team - AWAY in MOVING_TEAMS else team


def returning(table: str) -> str:
    """Return the clause that tells of rows as they were and as they are."""
    columns = COLUMNS[table]
    return "RETURNING " + ", ".join(
        f"{which}.{name}" for which in ("old", "new") for name in columns
    )


def note(effects: Effects, table: str, found: Sequence[Image]) -> None:
    """Note rows that such a clause has told of."""
    width = len(COLUMNS[table])
    for row in found:
        for image, amount in ((row[:width], -1), (row[width:], 1)):
            if image[0] is not None and image[0] < RACED:
                effects.images[table, lasting(table, image)] += amount


def lasting(table: str, image: Image) -> Image:
    """Return of a row what does not change when the key of its team does."""
    if table == "teams":
        return image
    number, team, *rest = image
    assert team is not None
    return (number, home(team), *rest)


def initial() -> Effects:
    """Return what the tables hold at first."""
    effects = Effects()
    for team in LASTING_TEAMS:
        effects.images["teams", (team, BADGES[0] + team, 0)] += 1
    for member in STEADY_MEMBERS:
        effects.images["members", (member, member, SEATS[0] + member, 0)] += 1
    return effects


def stored(connection: psycopg.Connection, *, replayed: bool = False) -> Rows:
    """Read all rows, of the tables or of what their journals make of them."""
    return {
        table: sorted(
            connection.execute(
                f"SELECT {', '.join(columns)} FROM"  # type: ignore[call-overload]
                f" {_REPLAYED.format(table=table) if replayed else table} found"
            ).fetchall()
        )
        for table, columns in COLUMNS.items()
    }


def differences(effects: Effects, rows: Rows) -> list[object]:
    """Return where rows are not what transactions come to; those that are fought for do not count.

    A guest that was taken away by a cascade is no difference.
    """
    expected = {place: amount for place, amount in effects.images.items() if amount}
    found = Counter(
        (table, lasting(table, row))
        for table in COLUMNS
        for row in rows[table]
        if row[0] is not None and row[0] < RACED
    )
    return [
        (*place, expected.get(place, 0), found[place])
        for place in sorted({*expected, *found}, key=repr)
        if expected.get(place, 0) != found[place]
        and not (expected.get(place) == 1 and is_passing(*place))
    ]


def is_passing(table: str, image: Image) -> bool:
    """Return whether a row may be missing because its team has gone."""
    return table == "guests" and image[1] not in LASTING_TEAMS
