"""A process is killed in each phase of a write: nothing acknowledged is lost, nothing else is seen.

Sessions are told what became of them, and the gateway goes on, by itself or when it is started
again.
"""

from collections.abc import Iterator

import pytest

from catalog.failpoints import Failpoint
from tests.support.stopped_writes import UNKNOWN, VICTIMS, WRITES, Stage, Write, run

pytestmark = [pytest.mark.server, pytest.mark.slow]

SAMPLE = {
    ("a cold row", Failpoint.THAWED, "own backend"),
    ("a hot row", Failpoint.COMMIT_SENT, "postmaster"),
    ("the short way", Failpoint.PASSED_ON, "backend"),
    ("all rows", Failpoint.RENAMED, "java"),
    ("all rows", Failpoint.PUBLISHED, "gateway"),
    ("keys of many rows", Failpoint.PUBLISHED, "own backend"),
    ("rows that move between partitions", Failpoint.CAPTURED, "gateway"),
    ("rows that move between partitions by MERGE", Failpoint.PUBLISHED, "backend"),
    ("files that become rows in place", Failpoint.RENAMED, "gateway"),
    ("many rows that are rolled back", Failpoint.PUBLISHED, "own backend"),
    ("few rows for others", Failpoint.APPENDED, "backend"),
    ("TRUNCATE", Failpoint.PUBLISHED, "postmaster"),
    ("copied rows that make a table tiered", Failpoint.STAGED, "java"),
    ("a key of a tiered table", Failpoint.RENAMED, "backend"),
    ("hot rows that go cold", Failpoint.COOLED, "own backend"),
    ("the flush of a resident table", Failpoint.FLUSH_PUBLISHED, "postmaster"),
    ("becoming tiered", Failpoint.MADE_TIERED, "own backend"),
}
"""What is tried each time: all victims, and all that changes where rows are."""

CASES = [
    pytest.param(
        write,
        point,
        victim,
        id=f"{write}-{point.value}-{victim}",
        marks=[] if (write.name, point, victim) in SAMPLE else [pytest.mark.exhaustive],
    )
    for victim in VICTIMS
    for write in WRITES
    for point in write.points
]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A gateway that is used again after each kill."""
    directory = tmp_path_factory.mktemp("stopped")
    with Stage(directory).running() as stage:
        yield stage


@pytest.mark.timeout(240)
@pytest.mark.parametrize(("write", "point", "victim"), CASES)
def test_a_process_is_killed_in_the_middle_of_a_write(
    stage: Stage, write: Write, point: Failpoint, victim: str
) -> None:
    stage.kill_at(write, point, victim)


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("name", "before"),
    [
        ("a cold row", Failpoint.THAWED),
        pytest.param("all rows", Failpoint.PUBLISHED, marks=pytest.mark.exhaustive),
    ],
)
def test_the_outcome_of_a_commit_that_is_not_answered_is_unknown(
    stage: Stage, name: str, before: Failpoint
) -> None:
    (write,) = (write for write in WRITES if write.name == name)
    ended = stage.kill_at(write, Failpoint.COMMIT_SENT, "backend", unheard=before)
    assert ended == UNKNOWN


@pytest.mark.timeout(240)
@pytest.mark.parametrize("earlier", [0, 2], ids=["the long way", "the short way"])
def test_so_is_that_of_a_commit_of_the_client(stage: Stage, earlier: int) -> None:
    count = "SELECT v FROM r WHERE id = 3"
    block = ("BEGIN", "UPDATE r SET v = v + 1 WHERE id = 3", "COMMIT")
    with stage.connected() as client:
        for statement in block * earlier:
            run(client, statement)
        before = client.execute(count).fetchall()
        for statement in block[:2]:
            run(client, statement)
        assert stage.commit_unheard(client) == UNKNOWN
    with stage.connected() as client:
        assert client.execute(count).fetchall() == before
