from pathlib import Path

import pytest

from pgwire_gateway.config import Config, ConfigError


def test_the_command_line_wins_over_environment_over_file_over_default(tmp_path):
    file = tmp_path / "gateway.toml"
    file.write_text('host = "10.0.0.1"\nport = 1\ninline-rows = 7\n', encoding="utf-8")
    config = Config.load(
        {"port": 3, "config": str(file)},
        {"PGWIRE_GATEWAY_PORT": "2", "PGWIRE_GATEWAY_HOST": "10.0.0.2"},
    )
    assert (config.port, config.host, config.inline_rows) == (3, "10.0.0.2", 7)
    assert config.flush_rows == Config().flush_rows


def test_the_file_may_be_named_by_the_environment(tmp_path):
    file = tmp_path / "gateway.toml"
    file.write_text('data-dir = "/somewhere"', encoding="utf-8")
    config = Config.load({}, {"PGWIRE_GATEWAY_CONFIG": str(file)})
    assert config.data_dir == Path("/somewhere")


def test_spark_settings_come_as_assignments_or_as_a_table(tmp_path):
    file = tmp_path / "gateway.toml"
    file.write_text('[spark-conf]\n"spark.driver.memory" = "2g"\n', encoding="utf-8")
    assert Config.load({"config": str(file)}, {}).spark_conf == {"spark.driver.memory": "2g"}
    assert Config.load({"spark_conf": ["a=1", "b=x=y"]}, {}).spark_conf == {"a": "1", "b": "x=y"}


def test_an_unknown_key_in_the_file_is_refused_by_name(tmp_path):
    file = tmp_path / "gateway.toml"
    file.write_text("prot = 1", encoding="utf-8")
    with pytest.raises(ConfigError, match="prot") as caught:
        Config.load({"config": str(file)}, {})
    assert caught.value.sqlstate == "22023"
    assert "port" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("port", "many"),
        ("inline_rows", "-1"),
        ("allow_insecure_network", "perhaps"),
        ("spark_conf", "no assignment"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_by_name(name, value):
    with pytest.raises(ConfigError, match=name):
        Config.load({}, {f"PGWIRE_GATEWAY_{name.upper()}": value})


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="could not read"):
        Config.load({"config": str(tmp_path / "none.toml")}, {})


@pytest.mark.parametrize(
    ("options", "method", "encrypts"),
    [
        ({}, "trust", False),
        ({"host": "::1"}, "trust", False),
        ({"host": "localhost", "authentication": "scram-sha-256"}, "scram-sha-256", False),
        ({"host": "192.0.2.1"}, "scram-sha-256", True),
        ({"host": "db.example"}, "scram-sha-256", True),
        ({"host": "192.0.2.1", "allow_insecure_network": True}, "trust", False),
    ],
)
def test_the_address_decides_what_clients_have_to_prove(options, method, encrypts):
    config = Config.load(options, {})
    assert (config.method, config.requires_encryption) == (method, encrypts)


def test_an_unknown_method_is_refused():
    with pytest.raises(ConfigError, match="authentication"):
        Config.load({"authentication": "md5"}, {})
