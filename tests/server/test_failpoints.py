"""A process is killed in each phase of a write: nothing acknowledged is lost, nothing else is seen.

Sessions are told what became of them, and the gateway goes on, by itself or when it is started
again.
"""

from collections.abc import Iterator

import pytest

from catalog.failpoints import Failpoint
from tests.support.stopped_writes import VICTIMS, WRITES, Stage, Write

pytestmark = [pytest.mark.server, pytest.mark.slow]

SAMPLE = {
    ("a cold row", Failpoint.THAWED, "own backend"),
    ("a cold row", Failpoint.COMMIT_SENT, "gateway"),
    ("a hot row", Failpoint.COMMIT_SENT, "postmaster"),
    ("the short way", Failpoint.PASSED_ON, "backend"),
    ("all rows", Failpoint.RENAMED, "java"),
    ("all rows", Failpoint.PUBLISHED, "gateway"),
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
