"""The directory tree of data files: nothing but its own is read, or removed."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from catalog.model import JournalTable, SegmentKind
from pgwire_gateway.spark.warehouse import STAGING, Warehouse

SEGMENT = "delta-00000000000000000000000000000001"

OUTSIDE = [
    "",
    ".",
    "..",
    "/",
    "5",
    "5/..",
    "5/17/..",
    "5/17/../18",
    "../other",
    "5/17/a/b",
    "5/17/a=b",
    "5/17/a=b/../../18",
    "5/17/a=../18",
    "5/17\n",
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for path in (f"warehouse/5/17/{SEGMENT}", "warehouse/5/18", "warehouse/5/17/a/b", "other"):
        (tmp_path / path).mkdir(parents=True)
    return tmp_path / "warehouse"


@pytest.mark.parametrize("path", [*OUTSIDE, "{other}"])
def test_what_is_no_path_of_a_table_is_not_removed(root: Path, path: str) -> None:
    before = sorted(root.parent.rglob("*"))
    Warehouse(str(root)).remove(path.format(other=root.parent / "other"))
    assert sorted(root.parent.rglob("*")) == before


@pytest.mark.parametrize("path", ["5/17", f"5/17/{SEGMENT}"])
def test_tables_and_segments_are(root: Path, path: str) -> None:
    Warehouse(str(root)).remove(path)
    assert not (root / path).exists()
    assert (root / "5/18").exists()


def claim(warehouse: Warehouse, *paths: str) -> None:
    for path in paths:
        warehouse.staging.claim(int(path.split("/")[1]), [path])


def test_what_nobody_claims_is_told_with_its_table(root: Path) -> None:
    warehouse = Warehouse(str(root))
    divided, former = "5/18/a=b/base-1", f"5/18/{STAGING}/ab"
    for path in (divided, former, "5/18/base-2", "6/18/base-3"):
        (root / path).mkdir(parents=True)
    claim(warehouse, "5/18/base-2")
    assert warehouse.unclaimed(5) == {f"5/17/{SEGMENT}": 17, divided: 18, former: 18}
    warehouse.staging.settle(warehouse.staging.claimed())
    assert warehouse.unclaimed(6) == {"6/18/base-3": 18}
    assert "5/18/base-2" in warehouse.unclaimed(5)


@pytest.mark.parametrize("removed", ["5/17/base-1", "5/17"])
def test_what_is_removed_is_claimed_no_more(root: Path, removed: str) -> None:
    warehouse = Warehouse(str(root))
    claim(warehouse, "5/17/base-1", "5/170/base-1")
    warehouse.remove(removed)
    assert warehouse.staging.claimed() == {"5/170/base-1"}
    warehouse.remove_database(5)
    assert warehouse.staging.claimed() == set()


def test_empty_tables_go_and_come_back(root: Path) -> None:
    warehouse = Warehouse(str(root))
    (root / f"5/18/{STAGING}").mkdir()
    warehouse.remove_empty(5)
    assert not (root / "5/18").exists()
    warehouse.remove(f"5/17/{SEGMENT}")
    assert (root / "5/17/a/b").exists()
    table = JournalTable(18, "s", "t", (), (), None, 0, "5/18")
    staged = warehouse.staging.begin()
    staged.files.mkdir()
    path = warehouse.install(staged, table, SegmentKind.BASE, 0)
    staged.discard()
    assert (root / path).is_dir()
    assert warehouse.staging.claimed() == {path}


@pytest.fixture(params=["its name is seen", "its table is looked into"])
def vanishing(root: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A segment, in a table of its own, that is removed when somebody looks."""
    table = root / "5/20"
    (table / SEGMENT).mkdir(parents=True)
    glob = Path.glob

    def seen(directory: Path, pattern: str) -> Iterator[Path]:
        if request.param == "its table is looked into" and directory.is_relative_to(table):
            shutil.rmtree(table, ignore_errors=True)
            raise FileNotFoundError(directory)
        for found in list(glob(directory, pattern)):
            if found.is_relative_to(table):
                shutil.rmtree(table, ignore_errors=True)
            yield found

    monkeypatch.setattr(Path, "glob", seen)
    return f"5/20/{SEGMENT}"


def test_what_others_remove_meanwhile_is_no_failure(root: Path, vanishing: str) -> None:
    warehouse = Warehouse(str(root))
    for path in warehouse.unclaimed(5):
        warehouse.remove(path)
    warehouse.remove_empty(5)
    assert not (root / vanishing).exists()
    assert not (root / f"5/17/{SEGMENT}").exists()


def test_nothing_is_left_of_a_database_that_is_gone(root: Path) -> None:
    Warehouse(str(root)).remove_database(5)
    assert sorted(root.parent.iterdir()) == [root.parent / "other", root]
    assert list(root.iterdir()) == []


@pytest.mark.parametrize("path", ["..", "../other", "/etc", "5/17/../../../other", "5//17", ""])
def test_paths_lead_nowhere_else(root: Path, path: str) -> None:
    with pytest.raises(ValueError, match="no path of the warehouse"):
        Warehouse(str(root)).absolute(path)


def test_removal_does_not_take_longer_beside_many_claims(root: Path) -> None:
    warehouse = Warehouse(str(root))
    claim(warehouse, *(f"5/18/base-{number}" for number in range(4000)))
    paths = [f"5/17/k={number}/base-{number}" for number in range(4000)]
    warehouse.staging.claim(17, paths)
    begun_s = time.monotonic()
    for path in paths[:1000]:
        warehouse.remove(path)
    assert time.monotonic() < begun_s + 10
    assert sorted(len(claim.paths) for claim in warehouse.staging.own_claims())[-2:] == [1, 3000]


def test_places_whose_parents_others_look_at_are_taken(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse = Warehouse(str(root))
    staged = warehouse.staging.begin()
    staged.files.mkdir()
    make, gone = Path.mkdir, []

    def mkdir(path: Path, **said: bool) -> None:
        """Meet a directory that is gone when it is looked at what it is."""
        if path.name == "17" and not gone:
            gone.append(path)
            raise FileExistsError(path)
        make(path, **said)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    table = JournalTable(17, "s", "t", (), (), None, 0, "5/17")
    path = warehouse.install(staged, table, SegmentKind.BASE, 0)
    assert gone
    assert warehouse.absolute(path).is_dir()
