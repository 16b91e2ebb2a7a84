"""Invalid YAML is reported with its line, and deep nesting does not overflow the stack."""

from pathlib import Path

import pytest
from error_checks import raises

from lathe.configs import ConfigError, load_config, shipped_configs
from lathe.configs.yaml_file import DEEPEST, NotYamlError, compose_yaml, value_of

SHIPPED = ", ".join(shipped_configs())


def test_a_document_keeps_its_lines() -> None:
    node = compose_yaml("a: 1\n\nb: [2]\n")
    assert node is not None
    assert [key.start_mark.line for key, _ in node.value] == [0, 2]
    assert compose_yaml("# nothing\n") is None


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("a: 1\nb: [", 2, "expected the node content, but found '<stream end>'"),
        ("a: 1\nb: \x00", 2, "special characters are not allowed"),
        ("a: 1\nb: " + "[" * 3000, 2, f"it nests more than {DEEPEST} levels deep"),
        ("".join(f"{' ' * n}a:\n" for n in range(3000)), DEEPEST + 1, f"it nests more than {DEEPEST} levels deep"),
        ("- " * 3000 + "a", 1, f"it nests more than {DEEPEST} levels deep"),
    ],
    ids=["open", "null", "lists", "keys", "dashes"],
)
def test_invalid_yaml_is_reported_with_its_line(text: str, line: int, reason: str) -> None:
    with pytest.raises(NotYamlError) as caught:
        compose_yaml(text)
    assert (str(caught.value), caught.value.line) == (reason, line)


def test_a_machine_that_nests_too_deeply(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text("batch: " + "[" * 3000)
    error = raises(ConfigError, load_config, path, mentions=(path, "line 1", "nests more than 100 levels"))
    assert (error.file, error.line) == (path, 1)


def test_a_machine_in_json_that_nests_too_deeply(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_text('{"LOG_BATCH": ' + "[" * 100_000)
    raises(ConfigError, load_config, path, mentions=(path, "JSON", "nests too deeply"))


@pytest.mark.parametrize("name", ["a" * 5000, "a\0b"])
def test_a_name_that_is_impossible_for_a_file(name: str) -> None:
    raises(ConfigError, load_config, name, mentions=(SHIPPED, "path"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("2020-13-45", "'2020-13-45' is not a valid timestamp"),
        ("!!int x", "'x' is not a valid int"),
        ('!!int ""', "'' is not a valid int"),
        ("!!bool x", "'x' is not a valid bool"),
        ("!!float x", "'x' is not a valid float"),
        (
            "!!python/name:os.system x",
            "could not determine a constructor for the tag 'tag:yaml.org,2002:python/name:os.system'",
        ),
        ("9" * 5000, f"'{'9' * 56}... is not a valid int"),
        ("&a [*a, {*a : 1}]", "found unhashable key"),
    ],
)
def test_an_invalid_value_is_reported(text: str, reason: str) -> None:
    node = compose_yaml(f"a:\n  {text}\n")
    assert node is not None
    with pytest.raises(NotYamlError) as caught:
        value_of(node.value[0][1])
    assert (str(caught.value), caught.value.line) == (reason, 2)
