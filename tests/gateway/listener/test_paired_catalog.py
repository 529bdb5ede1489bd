"""Data files are those of one catalog."""

from pathlib import Path

import pytest

from pgwire_gateway.config import ConfigError
from pgwire_gateway.listener.paired_catalog import MARK, require_paired, warehouse_identity


def test_data_files_are_refused_beside_another_catalog(tmp_path: Path) -> None:
    warehouse = tmp_path / "warehouse"
    for _ in range(2):
        require_paired(warehouse, "7")
    with pytest.raises(ConfigError, match="belong to another catalog") as caught:
        require_paired(warehouse, "8")
    assert str(warehouse / MARK) in str(caught.value.hint)
    (warehouse / MARK).unlink()
    require_paired(warehouse, "8")


def test_what_was_written_before_there_were_marks_is_taken(tmp_path: Path) -> None:
    (tmp_path / "5").mkdir()
    require_paired(tmp_path, "7")
    assert (tmp_path / MARK).read_text(encoding="utf-8") == "7\n"


def test_directories_differ_and_stay_what_they_are_where_they_are_moved(tmp_path: Path) -> None:
    first, second = tmp_path / "1" / "warehouse", tmp_path / "2"
    identity = warehouse_identity(first)
    assert warehouse_identity(first) == identity
    assert warehouse_identity(second) != identity
    assert warehouse_identity(first.rename(tmp_path / "3")) == identity
