"""The directory tree of data files: nothing but its own is read, or removed."""

from pathlib import Path

import pytest

from pgwire_gateway.spark.warehouse import Warehouse

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


@pytest.mark.parametrize("path", ["..", "../other", "/etc", "5/17/../../../other", "5//17", ""])
def test_paths_lead_nowhere_else(root: Path, path: str) -> None:
    with pytest.raises(ValueError, match="no path of the warehouse"):
        Warehouse(str(root)).absolute(path)
