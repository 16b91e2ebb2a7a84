"""The `lathe` command itself: help, version, errors."""

import json
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from lathe.command_line import main
from lathe.commands.configs import extensions_of
from lathe.configs import ConfigError, load_config, shipped_configs

SHIPPED = ", ".join(shipped_configs())


def commands(group, *before):
    for name, command in group.commands.items():
        yield (*before, name)
        if isinstance(command, click.Group):
            yield from commands(command, *before, name)


@pytest.mark.parametrize("words", [(), *commands(main)], ids=" ".join)
def test_every_command_has_help_that_explains_every_option(words):
    result = CliRunner().invoke(main, [*words, "--help"])
    assert result.exit_code == 0
    command = main
    for word in words:
        command = command.commands[word]
    assert command.help
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{parameter.name} of {' '.join(words)} has no help"


def test_version_is_the_packages():
    result = CliRunner().invoke(main, ["--version"])
    assert result.exit_code == 0
    assert result.output.startswith("lathe, version ")


def test_a_users_error_is_one_paragraph_on_standard_error_with_status_2():
    result = CliRunner().invoke(main, ["configs", "vtaa"])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr == (
        f"Error: The configuration must be one of {SHIPPED}, or the path of a YAML or "
        "JSON file, not 'vtaa'. Did you mean 'vta'?\n"
    )


def test_debug_lets_the_error_through():
    result = CliRunner().invoke(main, ["--debug", "configs", "vtaa"])
    assert isinstance(result.exception, ConfigError)


def test_configs_lists_every_shipped_machine():
    result = CliRunner().invoke(main, ["configs", "--json"])
    assert [machine["name"] for machine in json.loads(result.stdout)] == list(shipped_configs())
    text = CliRunner().invoke(main, ["configs"]).stdout
    for name in shipped_configs():
        assert f"\n{name} " in text
    extensions = {line.split()[0]: line.split()[-1] for line in text.splitlines() if line}
    assert (extensions["vta"], extensions["lathe16"]) == ("none", "all")


def test_configs_names_the_extensions_of_a_machine_in_short():
    plain, full = load_config("vta"), load_config("lathe16")
    assert extensions_of(plain.with_(extensions=("alu_sub", "gemm_begin"))) == "alu_sub, gemm_begin"
    fewer = tuple(each for each in full.extensions if each != "pad_value")
    assert extensions_of(full.with_(extensions=fewer)) == "all but pad_value"


def test_configs_of_one_machine_shows_given_and_derived_numbers():
    machine = json.loads(CliRunner().invoke(main, ["configs", "vta", "--json"]).stdout)
    assert machine["memory"]["bus_bits"] == 64
    assert machine["derived"]["acc_depth"] == load_config("vta").acc_depth == 2048
    text = CliRunner().invoke(main, ["configs", "vta"]).stdout
    for key in machine["derived"]:
        assert f"\n{key} " in text
    assert "\nmemory.latency " in text


def test_exit_without_garbage_collection():
    """A final collection would delay the end after Ctrl-C."""
    script = (
        "import atexit, gc; atexit.register(lambda: print(gc.get_freeze_count() > 10_000));"
        "from lathe.command_line import main; main(['configs', '--json'])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("]\nTrue\n")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is always full")
def test_full_standard_output_is_reported():
    with open("/dev/full", "w") as full:
        words = [sys.executable, "-c", "from lathe.command_line import main; main()", "configs"]
        result = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert result.returncode == 2
    assert re.match("Error: .*standard output", result.stderr, re.IGNORECASE)
