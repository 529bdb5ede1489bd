"""A short random history against a plain PostgreSQL; ``make soak`` makes long ones."""

import random
from collections.abc import Iterator

import pytest

from tests.support import soak, twins
from tests.support.fix_server import MACHINE_OPTIONS
from tests.support.history_kinds import values
from tests.support.history_statements import Statements
from tests.support.servers import Address, GatewayProcess
from tests.support.twins import Answer, DivergenceError, Twins

pytestmark = pytest.mark.server

SEEDS = (1, 2)

STEPS = 90


@pytest.fixture(scope="module")
def restless(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway whose upkeep lets no table rest."""
    directory = tmp_path_factory.mktemp("restless")
    options = (*MACHINE_OPTIONS, *soak.OPTIONS)
    with GatewayProcess(directory, *options, module="tests.support.restless") as process:
        yield process


@pytest.fixture
def twin(restless: GatewayProcess, plain_postgres: Address) -> Iterator[tuple[Address, Address]]:
    """A database of the same name on both servers."""
    for server in (restless.address, plain_postgres):
        server.execute("CREATE DATABASE twins")
    yield restless.address, plain_postgres
    for server in (restless.address, plain_postgres):
        server.execute("DROP DATABASE twins WITH (FORCE)")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_history_is_the_same_on_postgresql(twin: tuple[Address, Address], seed: int) -> None:
    made = Twins(*twin, seed, database="twins")
    try:
        twins.run(made, lambda: made.steps >= STEPS, between=lambda: None)
    finally:
        made.close()
    assert sum(made.counted.values()) > STEPS / 4
    assert made.counted["INSERT"] > 0
    assert made.counted["UPDATE"] > 0


def test_a_row_too_many_is_found(twin: tuple[Address, Address]) -> None:
    made = Twins(*twin, 1, database="twins")
    try:
        twin[1].execute("INSERT INTO bare VALUES (1, 'only here', NULL)", database="twins")
        with pytest.raises(DivergenceError, match=r"missing: .*only here"):
            made.check()
    finally:
        made.close()


@pytest.mark.parametrize(
    ("found", "expected", "alike"),
    [
        (Answer("SELECT 1", [(b"1",)]), Answer("SELECT 1", [(b"1",)]), True),
        (Answer("SELECT 1", [(b"1",)]), Answer("SELECT 1", [(None,)]), False),
        (Answer("23505", [], "a"), Answer("23514", [], "b"), True),
        (Answer("23514", []), Answer("55P03", []), True),
        (Answer("23514", []), Answer("55000", []), False),
        (Answer("23505", []), Answer("INSERT 0 1", []), False),
        (Answer("UPDATE 1", []), Answer("UPDATE 2", []), False),
    ],
)
def test_answers_are_compared(found: Answer, expected: Answer, alike: bool) -> None:
    assert found.is_like(expected) is alike


def test_the_same_seed_makes_the_same_statements() -> None:
    one, other = (Statements(random.Random(4)) for _ in range(2))  # noqa: S311 - not for secrets
    drawn = [source.next(definitions=True) for source in (one, other) for _ in range(200)]
    assert drawn[:200] == drawn[200:]


def test_histories_reach_all_kinds_of_statements() -> None:
    source = Statements(random.Random(4))  # noqa: S311 - not for secrets
    drawn = [source.next(definitions=True) for _ in range(3_000)]
    texts = "\n".join(statement.sql for statement in drawn)
    for part in ("INTO kinds", "INTO parts", " TYPE ", "ADD CONSTRAINT", "DROP CONSTRAINT"):
        assert part in texts
    assert any(statement.parameters for statement in drawn)
    for column, made in values(random.Random(4)).items():  # noqa: S311 - not for secrets
        assert len({made() for _ in range(9)}) > 1, column
