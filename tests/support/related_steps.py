"""Steps of random transactions on tables that reference each other and have UNIQUE columns.

Values are taken, handed over, exchanged and freed; what is referenced goes, comes and gets other
keys. Who comes too late is refused by the constraint.
"""

import random
from collections.abc import Callable, Sequence
from typing import cast

import psycopg
from psycopg import errors

from tests.support.hot_load import (
    AWAY,
    Connection,
    Effects,
    Image,
    Part,
    WrongAnswerError,
    expect,
)
from tests.support.related_rows import (
    BADGES,
    FIRST_FOUNDED,
    FOUNDED,
    FOUNDED_BADGE,
    LASTING_TEAMS,
    LOOSE_MEMBERS,
    LOOSE_TEAMS,
    MOVING_TEAMS,
    OTHER_SEATS,
    RACED,
    SEATS,
    STEADY_MEMBERS,
    STEADY_TEAMS,
    note,
    returning,
)

BROUGHT = 80
"""Guests that come at once."""


def run(
    connection: Connection,
    effects: Effects,
    table: str,
    statement: str,
    arguments: Sequence[object] = (),
) -> list[Image]:
    """Run a statement and note which rows it has changed; return these, as they were and are."""
    query = f"{statement} {returning(table)}"
    found = connection.execute(query, arguments).fetchall()  # type: ignore[call-overload]
    note(effects, table, found)
    return cast("list[Image]", found)


def must_fail(
    connection: Connection, expected: type[psycopg.Error], statement: str, *arguments: object
) -> bool:
    """Run what a constraint never allows, and go back to before."""
    connection.execute("SAVEPOINT before")
    try:
        connection.execute(statement, arguments)  # type: ignore[call-overload]
    except expected:
        connection.execute("ROLLBACK TO before")
        return True
    raise WrongAnswerError("a constraint was violated", statement, arguments)


def a_team(chance: random.Random) -> int:
    """Draw the key of a team that there may be."""
    team = chance.choice((*LASTING_TEAMS, *STEADY_TEAMS, *LOOSE_TEAMS))
    return team + AWAY * chance.randint(0, 1) if team in MOVING_TEAMS else team


def a_member(chance: random.Random) -> int:
    return chance.choice((*STEADY_MEMBERS, *LOOSE_MEMBERS))


# teams ------------------------------------------------------------------------------------------


def add_to_team(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    team = a_team(chance)
    found = run(connection, effects, "teams", "UPDATE teams SET n = n + 1 WHERE id = %s", [team])
    expect(bool(found) or team not in STEADY_TEAMS, "no team", team)
    return bool(found)


def take_badge(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    statement = "UPDATE teams SET badge = %s WHERE id = %s"
    arguments = [chance.choice(BADGES), a_team(chance)]
    return bool(run(connection, effects, "teams", statement, arguments))


def exchange_badges(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    teams = sorted(chance.sample((*STEADY_TEAMS, *LOOSE_TEAMS), 2))
    query = "SELECT badge FROM teams WHERE id = %s FOR UPDATE"
    found = [connection.execute(query, [team]).fetchone() for team in teams]
    if None in found:
        return False
    badges = [badge for (badge,) in found if badge]
    places = ((teams[0], -teams[0]), (teams[1], badges[0]), (teams[0], badges[1]))
    for team, badge in places:
        statement = "UPDATE teams SET badge = %s WHERE id = %s"
        done = run(connection, effects, "teams", statement, [badge, team])
        expect(len(done) == 1, "a locked team has gone", team)
    return True


def exchange_badges_at_once(
    connection: Connection, chance: random.Random, effects: Effects
) -> bool:
    """Have two rows take each other's values: in PostgreSQL the first to do so meets the second.

    Not where others have changed one of them since the statement began, nor on Spark.
    """
    one, other = chance.sample(STEADY_TEAMS, 2)
    statement = (
        "UPDATE teams t SET badge = o.badge FROM teams o"
        " WHERE t.id IN (%s, %s) AND o.id IN (%s, %s) AND t.id <> o.id"
    )
    connection.execute("SAVEPOINT before")
    try:
        run(connection, effects, "teams", statement, [one, other, one, other])
    except errors.UniqueViolation:
        connection.execute("ROLLBACK TO before")
    return True


def open_team(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    arguments = [chance.choice(LOOSE_TEAMS), chance.choice(BADGES)]
    run(connection, effects, "teams", "INSERT INTO teams VALUES (%s, %s, 0)", arguments)
    return True


def open_team_or_add(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    arguments = [chance.choice(LOOSE_TEAMS), chance.choice(BADGES)]
    statement = (
        "INSERT INTO teams VALUES (%s, %s, 0) ON CONFLICT (badge) DO UPDATE SET n = teams.n + 1"
    )
    done = run(connection, effects, "teams", statement, arguments)
    expect(len(done) == 1, "upsert of a team", arguments, done)
    return True


def close_team(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    statement = "DELETE FROM teams WHERE id = %s"
    return bool(run(connection, effects, "teams", statement, [chance.choice(LOOSE_TEAMS)]))


def reopen_team(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    """Delete a team, with its guests, and insert it with the badge it had."""
    taken = run(
        connection,
        effects,
        "teams",
        "DELETE FROM teams WHERE id = %s",
        [chance.choice(LOOSE_TEAMS)],
    )
    for row in taken:
        run(connection, effects, "teams", "INSERT INTO teams VALUES (%s, %s, %s)", row[:3])
    return bool(taken)


def move_team(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    team = chance.choice(MOVING_TEAMS)
    places = chance.sample((team, team + AWAY), 2)
    return bool(run(connection, effects, "teams", "UPDATE teams SET id = %s WHERE id = %s", places))


def close_steady_team(connection: Connection, chance: random.Random, _: Effects) -> bool:
    statement = "DELETE FROM teams WHERE id = %s"
    return must_fail(connection, errors.ForeignKeyViolation, statement, chance.choice(STEADY_TEAMS))


# members ----------------------------------------------------------------------------------------


def add_to_member(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    member = a_member(chance)
    statement = "UPDATE members SET n = n + 1 WHERE id = %s"
    found = run(connection, effects, "members", statement, [member])
    expect(bool(found) or member not in STEADY_MEMBERS, "no member", member)
    return bool(found)


def take_seat(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    statement = "UPDATE members SET seat = %s WHERE id = %s"
    arguments = [chance.choice(SEATS), a_member(chance)]
    return bool(run(connection, effects, "members", statement, arguments))


def hand_seat_over(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    one, other = sorted(chance.sample((*STEADY_MEMBERS, *LOOSE_MEMBERS), 2))
    statement = "UPDATE members SET seat = NULL WHERE id = %s"
    left = run(connection, effects, "members", statement, [one])
    if not left:
        return False
    statement = "UPDATE members SET seat = %s WHERE id = %s"
    return bool(run(connection, effects, "members", statement, [left[0][2], other]))


def join(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    arguments = [chance.choice(LOOSE_MEMBERS), a_team(chance), chance.choice(SEATS)]
    run(connection, effects, "members", "INSERT INTO members VALUES (%s, %s, %s, 0)", arguments)
    return True


def join_if_free(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    arguments = [chance.choice(LOOSE_MEMBERS), a_team(chance), chance.choice(SEATS)]
    statement = "INSERT INTO members VALUES (%s, %s, %s, 0) ON CONFLICT DO NOTHING"
    return bool(run(connection, effects, "members", statement, arguments))


def join_or_add(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    arguments = [chance.choice(LOOSE_MEMBERS), a_team(chance), chance.choice(SEATS)]
    statement = (
        "INSERT INTO members VALUES (%s, %s, %s, 0)"
        " ON CONFLICT (seat) DO UPDATE SET n = members.n + 1"
    )
    done = run(connection, effects, "members", statement, arguments)
    expect(len(done) == 1, "upsert of a member", arguments, done)
    return True


def leave(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    statement = "DELETE FROM members WHERE id = %s"
    return bool(run(connection, effects, "members", statement, [chance.choice(LOOSE_MEMBERS)]))


def replace(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    """Delete a member, and insert one with the team and the seat that it had."""
    one, other = chance.choices(LOOSE_MEMBERS, k=2)
    taken = run(connection, effects, "members", "DELETE FROM members WHERE id = %s", [one])
    for row in taken:
        statement = "INSERT INTO members VALUES (%s, %s, %s, 0)"
        run(connection, effects, "members", statement, [other, *row[1:3]])
    return bool(taken)


def change_team(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    statement = "UPDATE members SET team = %s, n = n + 1 WHERE id = %s"
    arguments = [a_team(chance), chance.choice(LOOSE_MEMBERS)]
    return bool(run(connection, effects, "members", statement, arguments))


def join_nowhere(connection: Connection, chance: random.Random, _: Effects) -> bool:
    statement = "INSERT INTO members VALUES (%s, %s, NULL, 0)"
    arguments = (RACED - 1, RACED - 1 - chance.randrange(100))
    return must_fail(connection, errors.ForeignKeyViolation, statement, *arguments)


def take_steady_key(connection: Connection, chance: random.Random, _: Effects) -> bool:
    statement = "INSERT INTO members VALUES (%s, %s, NULL, 0)"
    member = chance.choice(STEADY_MEMBERS)
    return must_fail(connection, errors.UniqueViolation, statement, member, member)


# guests -----------------------------------------------------------------------------------------


def invite(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    host = chance.choice((None, a_member(chance)))
    statement = "INSERT INTO guests SELECT j, %s, %s, 0 FROM nextval('guest_numbers') j"
    run(connection, effects, "guests", statement, [a_team(chance), host])
    return True


def add_to_guests(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    statement = "UPDATE guests SET n = n + 1 WHERE team = %s AND id %% 3 = %s"
    arguments = [a_team(chance), chance.randrange(3)]
    return bool(run(connection, effects, "guests", statement, arguments))


def seat_guest_elsewhere(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    return _of_a_guest(
        connection, chance, effects, "UPDATE guests SET team = %s WHERE id = %s", a_team(chance)
    )


def send_guest_home(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    return _of_a_guest(connection, chance, effects, "DELETE FROM guests WHERE id = %s")


def _of_a_guest(
    connection: Connection,
    chance: random.Random,
    effects: Effects,
    statement: str,
    *arguments: object,
) -> bool:
    found = connection.execute("SELECT id FROM guests").fetchall()
    if not found:
        return False
    (guest,) = chance.choice(found)
    return bool(run(connection, effects, "guests", statement, [*arguments, guest]))


def take_related_back(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    connection.execute("SAVEPOINT before")
    try:
        for step in chance.choices((open_team, close_team, take_seat, leave, invite), k=2):
            step(connection, chance, Effects())
    except errors.IntegrityError:
        pass
    connection.execute("ROLLBACK TO before")
    return add_to_member(connection, chance, effects)


_TAKEN, _LOST = frozenset({"23505"}), frozenset({"23503"})
"""Somebody else has the value; there is nothing to reference, or what is to go is referenced."""

PARTS = (
    Part(add_to_team),
    Part(take_badge, refused=_TAKEN),
    Part(exchange_badges),
    Part(exchange_badges_at_once),
    Part(open_team, refused=_TAKEN),
    Part(open_team_or_add, refused=_TAKEN),
    Part(close_team, refused=_LOST),
    Part(reopen_team, refused=_LOST),
    Part(move_team),
    Part(close_steady_team),
    Part(add_to_member),
    Part(take_seat, refused=_TAKEN),
    Part(hand_seat_over),
    Part(join, refused=_TAKEN | _LOST),
    Part(join_if_free, refused=_LOST),
    Part(join_or_add, refused=_TAKEN | _LOST),
    Part(leave),
    Part(replace, refused=_TAKEN),
    Part(change_team, refused=_LOST),
    Part(join_nowhere),
    Part(take_steady_key),
    Part(invite, refused=_LOST),
    Part(invite, refused=_LOST),
    Part(add_to_guests),
    Part(seat_guest_elsewhere, refused=_LOST),
    Part(send_guest_home),
    Part(take_related_back),
)
"""Few rows, by their keys or conditions."""


# many rows --------------------------------------------------------------------------------------


def add_to_members(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    statement = "UPDATE members SET n = n + 1 WHERE (n + id) %% 3 = %s"
    run(connection, effects, "members", statement, [chance.randrange(3)])
    return True


def add_to_teams(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    statement = "UPDATE teams SET n = n + 1 WHERE (n + id) %% 3 = %s"
    run(connection, effects, "teams", statement, [chance.randrange(3)])
    return True


def change_seats(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    """Free the seats of every second member, and take others, or those that were freed before."""
    statement = (
        f"UPDATE members SET seat = CASE WHEN seat > {OTHER_SEATS} THEN seat - {OTHER_SEATS}"
        f" ELSE seat + {OTHER_SEATS} END WHERE id %% 2 = %s AND id < {RACED}"
    )
    run(connection, effects, "members", statement, [chance.randrange(2)])
    return True


def bring_guests(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    teams = [a_team(chance), *STEADY_TEAMS]
    query = "SELECT nextval('guest_numbers') FROM generate_series(1, %s)"
    found = [
        (number, chance.choice(teams), 0)
        for (number,) in connection.execute(query, [BROUGHT]).fetchall()
    ]
    with connection.cursor() as cursor, cursor.copy("COPY guests FROM STDIN") as copy:
        copy.write("".join(f"{number}\t{team}\t\\N\t{n}\n" for number, team, n in found))
    note(effects, "guests", [(None, None, None, *row) for row in found])
    return True


def send_guests_home(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    statement = f"DELETE FROM guests WHERE (id + n) %% 4 <> %s AND id < {RACED}"
    run(connection, effects, "guests", statement, [chance.randrange(4)])
    return True


def found_teams(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    first = FIRST_FOUNDED + FOUNDED * chance.randrange(10)
    numbers = range(first, first + FOUNDED)
    with connection.cursor() as cursor, cursor.copy("COPY teams FROM STDIN") as copy:
        copy.write("".join(f"{team}\t{team + FOUNDED_BADGE}\t0\n" for team in numbers))
    note(effects, "teams", [(None, None, None, team, team + FOUNDED_BADGE, 0) for team in numbers])
    return True


def dissolve_teams(connection: Connection, _: random.Random, effects: Effects) -> bool:
    query = "SELECT min(id) FROM teams WHERE badge >= %s"
    ((first,),) = connection.execute(query, [FOUNDED_BADGE]).fetchall()
    if first is None:
        return False
    statement = "DELETE FROM teams WHERE badge >= %s AND id >= %s AND id < %s"
    arguments = [FOUNDED_BADGE, first, first + FOUNDED]
    return bool(run(connection, effects, "teams", statement, arguments))


def bring_and_close(connection: Connection, chance: random.Random, effects: Effects) -> bool:
    """Reference rows by many others, and change what is referenced, the other way round too."""
    steps: list[Callable[[Connection, random.Random, Effects], bool]] = [bring_guests, move_team]
    chance.shuffle(steps)
    return all(step(connection, chance, effects) for step in steps)


BULK_PARTS = (
    Part(add_to_members),
    Part(add_to_teams),
    Part(change_seats, refused=_TAKEN),
    Part(bring_guests, refused=_LOST),
    Part(send_guests_home),
    Part(found_teams, refused=_TAKEN),
    Part(dissolve_teams),
    Part(bring_and_close, refused=_LOST),
)
