"""Files that are written belong to the process that writes, as long as it lives."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pgwire_gateway.spark.owners import Owner, Owners
from pgwire_gateway.spark.staging import Staging

WRITER = """
import sys
from pathlib import Path
from pgwire_gateway.spark.staging import Staging

staging = Staging(Path(sys.argv[1]))
staged = staging.begin()
staging.claim(17, ["5/17/base-0", "5/17/base-1"])
with staging.outside(Path(sys.argv[2]), ".pgwire-") as place:
    place.mkdir()
    print(staged.root, place, sep="\\n", flush=True)
    sys.stdin.read()
"""
"""A process that writes until it is killed."""

DAYS_S = 30 * 24 * 3600.0


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "_staging"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    place = tmp_path / "outside"
    place.mkdir()
    return place


@pytest.fixture
def staging(root: Path) -> Staging:
    """Files as a process that comes later sees them."""
    return Staging(root)


@pytest.fixture
def writer(root: Path, outside: Path) -> Iterator[tuple[Callable[[], None], tuple[Path, Path]]]:
    """What kills a process that writes, and where it does."""
    arguments = [sys.executable, "-c", WRITER, str(root), str(outside)]
    with subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None

        def kill() -> None:
            process.send_signal(signal.SIGKILL)
            process.wait()

        try:
            yield kill, (Path(process.stdout.readline()[:-1]), Path(process.stdout.readline()[:-1]))
        finally:
            kill()


def age(*paths: Path) -> None:
    """Have files changed last many days ago."""
    for path in paths:
        os.utime(path, (time.time() - DAYS_S, time.time() - DAYS_S))


def test_what_is_written_stays_while_the_writer_lives_and_goes_with_it(
    staging: Staging,
    root: Path,
    writer: tuple[Callable[[], None], tuple[Path, Path]],
) -> None:
    kill, places = writer
    age(*places, *root.iterdir())
    assert not staging.has_left
    staging.remove_left()
    assert all(place.exists() for place in places)
    assert staging.inherited_claims() == []
    assert staging.claimed() == {"5/17/base-0", "5/17/base-1"}
    kill()
    staging.remove_left()
    assert not any(place.exists() for place in places)
    (claim,) = staging.inherited_claims()
    late = root / claim.file.parent.name / "late"
    late.mkdir()
    assert staging.has_left  # whatever becomes of the claim
    staging.remove_left()
    assert not late.exists()
    assert (claim.database, claim.relid) == (5, 17)
    assert not staging.has_left
    claim.drop()
    assert staging.has_left
    staging.remove_left()
    assert list(root.iterdir()) == []


def test_what_tasks_write_late_goes_with_the_next_look(
    staging: Staging, root: Path, writer: tuple[Callable[[], None], tuple[Path, Path]]
) -> None:
    kill, (staged, _) = writer
    kill()
    for claim in staging.inherited_claims():
        claim.drop()
    for _ in range(3):
        staging.remove_left()
        assert list(root.iterdir()) == []
        (staged / "segment").mkdir(parents=True)
    assert staging.has_left


def test_own_writes_stay_until_they_end(staging: Staging, root: Path) -> None:
    kept, ended = staging.begin(), staging.begin()
    ended.discard()
    age(kept.root)
    staging.remove_left()
    assert kept.incoming.exists()
    assert not staging.has_left
    for _ in range(2):
        (ended.root / "segment").mkdir(parents=True)
        assert staging.has_left
        staging.remove_left()
        assert not ended.root.exists()
    assert [path.name for path in root.glob("*/*")] == [kept.root.name]


def test_directories_outside_go_however_their_write_ends(staging: Staging, outside: Path) -> None:
    with staging.outside(outside, ".made.") as place:
        place.mkdir()
        staging.remove_left()
        place.rename(outside / "made")
    assert os.listdir(outside) == ["made"]  # noqa: PTH208 - names

    with suppress(InterruptedError), staging.outside(outside, ".pgwire-") as place:
        place.mkdir()
        raise InterruptedError
    assert not place.exists()
    for _ in range(2):
        # A task that has not heard of it.
        place.mkdir()
        assert staging.has_left
        staging.remove_left()
        assert not place.exists()


@pytest.mark.parametrize(
    "name", ["data", ".hidden", ".pgwire-0", "a.0123456789abcdef0123456789abcdef"]
)
def test_nothing_else_outside_is_removed(
    staging: Staging, root: Path, outside: Path, name: str
) -> None:
    (outside / name).mkdir()
    note = root / "dead" / "note.outside"
    note.parent.mkdir(parents=True)
    note.write_text(str(outside / name))
    staging.remove_left()
    assert not note.exists()
    assert (outside / name).exists()


@pytest.mark.parametrize(
    "text", ["", "{", "{}", '{"relid": 1, "paths": []}', '{"relid": 1, "paths": ["x/1"]}']
)
def test_a_claim_that_was_not_written_wholly_is_none(
    staging: Staging, root: Path, text: str
) -> None:
    file = root / "dead" / "0.claim"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    assert staging.inherited_claims() == []
    staging.remove_left()
    assert not root.exists() or list(root.iterdir()) == []


def test_claims_are_settled_place_by_place(staging: Staging, root: Path) -> None:
    staging.claim(17, ["5/17/a", "5/17/b"])
    staging.claim(18, [])
    staging.settle(["5/17/a"])
    assert staging.claimed() == {"5/17/b"}
    assert len(list(root.glob("*/*.claim"))) == 1
    staging.settle(["5/17/b", "5/17/c"])
    assert staging.claimed() == set()
    assert list(root.glob("*/*.claim")) == []


def test_a_lock_that_was_taken_for_abandoned_is_made_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock, removed = fcntl.flock, []

    def removing(descriptor: int, operation: int) -> None:
        """Have somebody else come first."""
        if not removed:
            (lock,) = root.glob("*.lock")
            removed.append(lock)
            lock.unlink()
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", removing)
    own = Owners(root).begin()
    assert removed[0] != Owner(own).lock
    assert Owner(own).lock.exists()


def test_what_cannot_be_removed_outside_is_tried_again(
    staging: Staging, root: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, note = outside / f".pgwire-{'0' * 32}", root / "dead" / "note.outside"
    place.mkdir()
    note.parent.mkdir(parents=True)
    note.write_text(str(place))
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", lambda *_, **__: None)
        staging.remove_left()
    assert note.exists()
    assert staging.has_left
    staging.remove_left()
    assert not place.exists()
    assert not note.exists()


def test_directories_outside_that_cannot_be_looked_at_are_none(
    staging: Staging, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with suppress(InterruptedError), staging.outside(outside, ".pgwire-") as place:
        raise InterruptedError
    looked = os.stat

    def stat(path: str | Path, **said: bool) -> os.stat_result:
        if path == place:
            raise PermissionError(path)
        return looked(path, **said)

    monkeypatch.setattr(os, "stat", stat)
    assert not staging.has_left


def test_files_of_others_are_not_taken_for_processes(staging: Staging, root: Path) -> None:
    root.mkdir()
    (root / ".nfs0001").touch()
    assert not staging.has_left
    staging.remove_left()
    assert staging.claimed() == set()


LEAVER = """
import atexit, sys
from pathlib import Path

@atexit.register
def told():
    print(Staging(Path(sys.argv[1])).inherited_claims())

from pgwire_gateway.spark.staging import Staging
staging = Staging(Path(sys.argv[1]))
staging.claim(17, ["5/17/base-0"])
"""
"""A process that ends, and looks at the very end whether it is taken for a living one."""


def test_a_process_lives_until_it_is_gone(root: Path, staging: Staging) -> None:
    arguments = [sys.executable, "-c", LEAVER, str(root)]
    said = subprocess.run(arguments, check=True, capture_output=True, text=True).stdout
    assert said == "[]\n"
    assert len(staging.inherited_claims()) == 1
