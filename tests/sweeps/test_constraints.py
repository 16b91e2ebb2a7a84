"""Constraints: only small numeric expressions that are evaluated quickly are accepted."""

import pytest
from error_checks import check_mentions
from sweep_files import check_mistake

from lathe.configs import load_config
from lathe.sweeps.constraints import FUNCTIONS, NAMES, Constraint, NoConstraintError
from lathe.sweeps.machines import Machine

VTA = Machine(load_config("vta"), 200.0)

TRUE = (
    "block_in == 16",
    "block_in + block_out - batch * 2 == 30 and block_in / 32 == 0.5",
    "inp_depth >= 512 or not True",
    "1 < block_in <= 16 != block_out + 1",
    "min(block_in, block_out, 8) == max(3, abs(-8))",
    "memory.latency * memory.bus_bits < 2 ** 20 if clock_mhz > 100 else False",
    "inp_buffer_bytes >> 10 == 32 and 32 << 10 == inp_buffer_bytes and ~0 == -1",
    "wgt_buffer_bytes // 3 * 3 + wgt_buffer_bytes % 3 == wgt_buffer_bytes",
    "block_in & 1 == 0 and block_in | 1 == 17 and block_in ^ 1 == 17",
    "2 ** 1000 > 1e300 and (-1) ** 10 ** 9 == 1 and 2 ** -1 == 0.5 and 0 << 10 ** 9 == 0",
)


@pytest.mark.parametrize("text", TRUE)
def test_an_expression_means_what_it_does_in_python(text):
    assert Constraint.of(text).holds(VTA)


def test_every_name_has_a_value():
    for name in NAMES:
        assert Constraint.of(f"{name} == {name}").holds(VTA)


# Refused when the file is parsed, before there is a machine.
NO_EXPRESSIONS = {
    "attributes of numbers": ("().__class__.__bases__[0].__subclasses__() == 1", "calls", "min, max, abs"),
    "attributes of attributes": ("memory.latency.real == 1", "'memory.latency.real'", "no number"),
    "imports": ("__import__('os').system('true') == 0", "'__import__'", "name"),
    "methods": ("memory.latency.bit_length() == 3", "calls 'memory.latency.bit_length'", "min, max, abs"),
    "strings": ("'a' * 99999 == 1", "'a'", "no number"),
    "formatted strings": ("'%99999999999d' % 1 == 1", "'%99999999999d'", "no number"),
    "f-strings": ("f'{1:>10000000000}' == 1", "\"f'{1:>10000000000}'\"", "no number"),
    "lists": ("[1] * 10 ** 9 == 1", "'[1]'", "no number"),
    "list comprehensions": ("[[0 for min in max] for abs in max] == 1", "'[[0 for min in max] for abs in max]'"),
    "lambdas": ("(lambda: 1)() == 1", "calls 'lambda: 1'", "min, max, abs"),
    "other functions": ("open('x') == 1", "'open'", "name"),
    "functions of functions": ("min(1)(2) == 1", "calls 'min(1)'", "min, max, abs"),
    "keyword arguments": ("max(1, 2, key=abs) == 1", "'key=abs'", "no number"),
    "assignments": ("(min := 3) == 3", "'(min := 3)'", "no number"),
    "imaginary numbers": ("1j == 1", "1j", "no number"),
    "None": ("None == 1", "None", "no number"),
    "long numbers": ("0x" + "f" * 300 + " > 1", "1024 bits"),
    "longer ones": ("9" * 900 + " > 1", "1024 bits"),
    "length": ("1" + "+1" * 20000 + " > 0", "40005 characters", "1000"),
    "depth": ("-" * 990 + "1 == 1", "cannot be parsed"),
    "brackets": ("(" * 400 + "1" + ")" * 400 + " == 1", "too many nested parentheses"),
}


@pytest.mark.parametrize("kind", NO_EXPRESSIONS)
def test_other_expressions_are_refused_when_they_are_parsed(kind):
    text, *mentions = NO_EXPRESSIONS[kind]
    with pytest.raises(NoConstraintError) as caught:
        Constraint.of(text)
    check_mentions(caught.value, *mentions)


# Refused on a machine, without evaluating large numbers.
NOT_BOOLEAN = {
    "9 ** 9 ** 9 > 1": "1024 bits",
    "block_in ** 99999999999 > 1": "1024 bits",
    "block_in ** block_in ** block_in > 1": "1024 bits",
    "(-3) ** 1000 > 1": "1024 bits",
    "1 << 10 ** 12 > 1": "1024 bits",
    "2 ** 1000 * 2 ** 1000 > 1": "1024 bits",
    "2.0 ** 5000 > 1": "Numerical result out of range",
    "1 / 0 > 1": "division by zero",
    "1 << -1 > 1": "negative shift count",
    "abs(1, 2) > 1": "abs() takes exactly one argument (2 given)",
    "max(3) > 1": "'int' object is not iterable",
    "memory.latency + 1": "33 on machine 'vta'",
}


@pytest.mark.parametrize("text", NOT_BOOLEAN)
def test_an_expression_without_a_boolean_value_is_refused(text):
    with pytest.raises(NoConstraintError) as caught:
        Constraint.of(text).holds(VTA)
    check_mentions(caught.value, NOT_BOOLEAN[text])


MISTAKES = {
    "when it is parsed": ("f'{1:>10000000000}' == 1", 3, "constraints",
        "constraint", "'block_in <= 32'", "\"f'{1:>10000000000}'\"", "no number"),
    "on a machine": ("9**9**9 > 1", 2, "constraints", "constraint '9**9**9 > 1'", "true or false", "1024 bits"),
}  # fmt: skip


@pytest.mark.parametrize("kind", MISTAKES)
def test_both_are_mistakes_of_the_file_with_their_line(kind, tmp_path):
    text, *expected = MISTAKES[kind]
    rest = "workloads:\n  - matmul: {m: 1, n: 1, k: 1}\n"
    check_mistake(tmp_path, f'constraints:\n  - block_in < 32\n  - "{text}"\n{rest}', *expected)


def test_functions_are_those_of_the_documentation():
    assert [*FUNCTIONS] == ["min", "max", "abs"]
