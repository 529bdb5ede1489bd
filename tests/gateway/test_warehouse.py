"""The directory tree of data files: nothing but its own is read, or removed."""

import math
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

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


def test_tables_nobody_knows_are_those_of_transactions_that_ended_with_the_process(
    root: Path,
) -> None:
    left, known, younger = root / "5/17", root / "5/18", root / "5/19"
    younger.mkdir()
    warehouse = Warehouse(str(root))
    for table, since_s in ((left, -60), (known, -60), (younger, 60)):
        moment = time.time() + since_s
        os.utime(table, (moment, moment))
    assert warehouse.unknown_tables(5, {"5/18"}, 0, shared=False) == ["5/17"]
    assert warehouse.unknown_tables(5, {"5/18"}, 61, shared=False) == []
    assert warehouse.unknown_tables(5, {"5/18"}, math.inf, shared=False) == []
    assert warehouse.unknown_tables(5, {"5/18"}, 0, shared=True) == []


@pytest.mark.parametrize(
    ("made_s", "open_s", "is_shared", "is_abandoned"),
    [
        pytest.param(-60, 0, False, True, id="before this process"),
        pytest.param(-60, 59, False, True, id="before what is open"),
        pytest.param(-60, 61, False, False, id="by what is open"),
        pytest.param(-60, math.inf, False, False, id="perhaps by what is prepared"),
        pytest.param(-60, 0, True, False, id="perhaps by others"),
        pytest.param(60, 0, False, False, id="since"),
        pytest.param(-25 * 3600, 0, True, True, id="by others a day ago"),
        pytest.param(-25 * 3600, 26 * 3600, True, False, id="by others who have it open"),
    ],
)
def test_what_nobody_keeps_is_abandoned(
    root: Path, made_s: float, open_s: float, is_shared: bool, is_abandoned: bool
) -> None:
    staged = f"5/17/{STAGING}/ab"
    (root / staged).mkdir(parents=True)
    warehouse = Warehouse(str(root))
    moment = time.time() + made_s
    for path in (f"5/17/{SEGMENT}", staged):
        os.utime(root / path, (moment, moment))
    found = warehouse.abandoned({"5/17/other"}, open_s, shared=is_shared)
    assert found == ([f"5/17/{SEGMENT}", staged] if is_abandoned else [])


@pytest.fixture
def vanishing(root: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A segment, in a table of its own, that is removed when somebody has just seen its name."""
    table = root / "5/20"
    (table / SEGMENT).mkdir(parents=True)
    glob = Path.glob

    def seen(directory: Path, pattern: str) -> Iterator[Path]:
        for found in list(glob(directory, pattern)):
            if found.is_relative_to(table):
                shutil.rmtree(table)
            yield found

    monkeypatch.setattr(Path, "glob", seen)
    return f"5/20/{SEGMENT}"


def test_segments_that_others_remove_meanwhile_are_not_abandoned(
    root: Path, vanishing: str
) -> None:
    warehouse = Warehouse(str(root))
    known = {f"5/20/{SEGMENT[:-1]}2", "5/17/other"}
    os.utime(root / f"5/17/{SEGMENT}", (0, 0))
    assert warehouse.abandoned(known, 0, shared=False) == [f"5/17/{SEGMENT}"]
    assert not (root / vanishing).exists()


def test_tables_that_others_remove_meanwhile_are_not_told(root: Path, vanishing: str) -> None:
    warehouse = Warehouse(str(root))
    for table in ("5/17", "5/18", "5/20"):
        os.utime(root / table, (0, 0))
    assert warehouse.unknown_tables(5, {"5/18"}, 0, shared=False) == ["5/17"]
    assert not (root / vanishing).exists()


def test_nothing_is_left_of_a_database_that_is_gone(root: Path) -> None:
    Warehouse(str(root)).remove_database(5)
    assert sorted(root.parent.iterdir()) == [root.parent / "other", root]
    assert list(root.iterdir()) == []


@pytest.mark.parametrize("path", ["..", "../other", "/etc", "5/17/../../../other", "5//17", ""])
def test_paths_lead_nowhere_else(root: Path, path: str) -> None:
    with pytest.raises(ValueError, match="no path of the warehouse"):
        Warehouse(str(root)).absolute(path)
