"""Files are used below the directories an operator allows, and nowhere else."""

import os

import pytest

from catalog.errors import GatewayError
from pgwire_gateway.files.allowed_paths import AllowedPaths


@pytest.fixture
def tree(tmp_path):
    """An allowed directory, a withheld one in it, and another one beside it."""
    for name in ("allowed/own", "allowed/files/deeper", "beside"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("allowed/a.csv", "allowed/own/x.csv", "beside/secret.csv", "allowed/files/b.csv"):
        (tmp_path / name).write_text("a\n1\n")
    (tmp_path / "allowed/files/_SUCCESS").touch()
    (tmp_path / "allowed/files/.b.csv.crc").touch()
    (tmp_path / "allowed/files/deeper").rmdir()
    return tmp_path


@pytest.fixture
def paths(tree):
    return AllowedPaths((tree / "allowed",), tree / "allowed" / "own")


def refusal(function, text):
    with pytest.raises(GatewayError) as raised:
        function(str(text))
    return raised.value


def test_files_and_directories_below_are_read(tree, paths):
    file, directory = tree / "allowed/a.csv", tree / "allowed/files"
    assert paths.existing(str(file)) == (file,)
    assert paths.existing(f"file://{file}") == (file,)
    assert paths.existing(f"{directory}/") == (directory / "b.csv",)


def test_uris_are_decoded(tree, paths):
    (tree / "allowed/a b.csv").touch()
    assert paths.existing(f"file://{tree}/allowed/a%20b.csv") == (tree / "allowed/a b.csv",)


@pytest.mark.parametrize(
    "name",
    [
        "beside/secret.csv",
        "beside/missing.csv",
        "allowed/../beside/secret.csv",
        "allowed/own/x.csv",
        "allowedly/x",
        "",
    ],
)
def test_what_lies_outside_is_refused_whether_it_exists_or_not(tree, paths, name):
    for function in (paths.existing, paths.new):
        error = refusal(function, tree / name)
        assert error.sqlstate == "42501"
        assert error.message == f'path "{tree / name}" is not below a directory that is allowed'
        assert error.detail is None


def test_nothing_is_allowed_by_default(tree):
    assert (
        refusal(AllowedPaths((), tree / "x").existing, tree / "allowed/a.csv").sqlstate == "42501"
    )


def test_links_do_not_lead_out(tree, paths):
    (tree / "allowed/link.csv").symlink_to(tree / "beside/secret.csv")
    (tree / "allowed/way").symlink_to(tree / "beside")
    (tree / "allowed/files/c.csv").symlink_to(tree / "beside/secret.csv")
    (tree / "allowed/circle").symlink_to(tree / "allowed/circle")
    for name in ("link.csv", "way/secret.csv", "way", "files", "circle"):
        error = refusal(paths.existing, tree / "allowed" / name)
        assert error.sqlstate == "42501"
        assert "beside" not in error.message
    assert refusal(paths.new, tree / "allowed/way/out").sqlstate == "42501"


def test_links_inside_are_followed(tree, paths):
    (tree / "allowed/link.csv").symlink_to(tree / "allowed/a.csv")
    assert paths.existing(str(tree / "allowed/link.csv")) == (tree / "allowed/a.csv",)


def test_an_allowed_directory_may_be_a_link(tree):
    (tree / "shared").symlink_to(tree / "allowed")
    paths = AllowedPaths((tree / "shared",), tree / "x")
    assert paths.existing(str(tree / "shared/a.csv")) == (tree / "allowed/a.csv",)


@pytest.mark.parametrize(
    ("text", "sqlstate"),
    [
        ("a.csv", "42602"),
        ("./a.csv", "42602"),
        ("file:a.csv", "42602"),
        ("s3a://bucket/a.csv", "0A000"),
        ("file://host/a.csv", "0A000"),
        ("hdfs:/a.csv", "0A000"),
        ("https://example.org/a.csv", "0A000"),
        ("file:///a.csv?b.csv", "0A000"),
        ("file:/a.csv#b", "0A000"),
        ("file:///a\tb.csv", "0A000"),
        ("file:///a b.csv", "0A000"),
    ],
)
def test_other_places_than_absolute_paths_are_refused(paths, text, sqlstate):
    assert refusal(paths.existing, text).sqlstate == sqlstate


def test_missing_files_are_told(tree, paths):
    error = refusal(paths.existing, tree / "allowed/none.csv")
    assert error.sqlstate == "58P01"
    assert error.message.endswith('none.csv": No such file or directory')


@pytest.mark.parametrize("name", ["*.csv", "{a,b}.csv", "[a].csv"])
def test_patterns_are_not_expanded(tree, paths, name):
    (tree / "allowed" / name).touch()
    assert refusal(paths.existing, tree / "allowed" / name).sqlstate == "0A000"
    assert refusal(paths.existing, tree / "allowed").sqlstate == "0A000"


def test_directories_in_directories_are_refused(tree, paths):
    (tree / "allowed/files/n=1").mkdir()
    assert refusal(paths.existing, tree / "allowed/files").sqlstate == "0A000"


def test_pipes_are_not_waited_for(tree, paths):
    os.mkfifo(tree / "allowed/files/pipe")
    assert refusal(paths.existing, tree / "allowed/files").sqlstate == "42809"


def test_a_new_directory_has_a_parent_and_no_predecessor(tree, paths):
    assert paths.new(str(tree / "allowed/out")) == tree / "allowed/out"
    assert refusal(paths.new, tree / "allowed/files").sqlstate == "58P02"
    assert refusal(paths.new, tree / "allowed/none/out").sqlstate == "58P01"
    (tree / "allowed/nowhere").symlink_to(tree / "allowed/none")
    assert refusal(paths.new, tree / "allowed/nowhere").sqlstate == "58P02"


@pytest.mark.parametrize(
    ("log", "form"),
    [
        ("_delta_log/00000000000000000000.json", "delta"),
        (".hoodie/hoodie.properties", "hudi"),
        ("metadata/v1.metadata.json", "iceberg"),
    ],
)
@pytest.mark.parametrize("below", ["", "data", "day=1/hour=2"])
def test_files_that_only_a_log_tells_the_rows_of_are_refused(tree, paths, log, form, below):
    """What lies there may be rows that have been deleted: passing over the log is no reading."""
    table = tree / "allowed/table"
    (table / log).parent.mkdir(parents=True)
    (table / log).touch()
    (table / below).mkdir(parents=True, exist_ok=True)
    (table / below / "part-0.parquet").touch()
    error = refusal(paths.existing, table / below)
    assert (error.sqlstate, error.message) == ("0A000", f"files in format {form} are not supported")
    assert error.hint is not None
    assert "plain Parquet files" in error.hint
    (tree / "beside/_delta_log").mkdir()
    assert paths.existing(str(tree / "allowed/files")) == (tree / "allowed/files/b.csv",)


def test_logs_outside_are_not_looked_for(tree, paths):
    (tree / "_delta_log").mkdir()
    assert paths.existing(str(tree / "allowed/files")) == (tree / "allowed/files/b.csv",)
