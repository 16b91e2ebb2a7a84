"""Text that is to be YAML: where it ends to be so, and that its depth is no danger."""

from pathlib import Path

import pytest

from lathe.configs import ConfigError, load_config, shipped_configs
from lathe.configs.yaml_file import DEEPEST, NotYamlError, composed, value_of

SHIPPED = ", ".join(shipped_configs())


def test_a_document_keeps_its_lines() -> None:
    node = composed("a: 1\n\nb: [2]\n")
    assert node is not None
    assert [key.start_mark.line for key, _ in node.value] == [0, 2]
    assert composed("# nothing\n") is None


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
def test_what_is_none_is_told_with_its_line(text: str, line: int, reason: str) -> None:
    with pytest.raises(NotYamlError) as caught:
        composed(text)
    assert (str(caught.value), caught.value.line) == (reason, line)


def test_a_machine_that_nests_too_deeply(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text("batch: " + "[" * 3000)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert str(caught.value) == (
        f"The text of {path}, line 1, must be YAML, and is not: it nests more than 100 levels deep. Correct the line."
    )
    assert (caught.value.file, caught.value.line) == (path, 1)


def test_a_machine_in_json_that_nests_too_deeply(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_text('{"LOG_BATCH": ' + "[" * 100_000)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert str(caught.value) == (
        f"The text of {path} must be a flat JSON object, and nests too deeply. Write one number for each key."
    )


@pytest.mark.parametrize("name", ["a" * 5000, "a\0b"])
def test_a_name_that_no_file_can_have(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(name)
    assert str(caught.value).startswith(f"The configuration must be one of {SHIPPED}, or the path")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("2020-13-45", "'2020-13-45' is no timestamp"),
        ("!!int x", "'x' is no int"),
        ('!!int ""', "'' is no int"),
        ("!!bool x", "'x' is no bool"),
        ("!!float x", "'x' is no float"),
        (
            "!!python/name:os.system x",
            "could not determine a constructor for the tag 'tag:yaml.org,2002:python/name:os.system'",
        ),
        ("9" * 5000, f"'{'9' * 56}... is no int"),
        ("&a [*a, {*a : 1}]", "found unhashable key"),
    ],
)
def test_a_value_that_is_none_is_told(text: str, reason: str) -> None:
    node = composed(f"a:\n  {text}\n")
    assert node is not None
    with pytest.raises(NotYamlError) as caught:
        value_of(node.value[0][1])
    assert (str(caught.value), caught.value.line) == (reason, 2)
