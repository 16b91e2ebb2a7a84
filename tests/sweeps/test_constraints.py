"""Constraints are expressions of numbers, whatever a file has in their place: small, and quickly worked out."""

import pytest
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


# Refused when the file is read, before there is a machine.
NO_EXPRESSIONS = {
    "attributes of numbers": ("().__class__.__bases__[0].__subclasses__() == 1", "it calls "),
    "attributes of attributes": ("memory.latency.real == 1", "it has 'memory.latency.real', which is no number"),
    "imports": ("__import__('os').system('true') == 0", "nothing is named '__import__'"),
    "methods": ("memory.latency.bit_length() == 3", "it calls 'memory.latency.bit_length', which is none of min, "
                "max, abs"),
    "texts": ("'a' * 99999 == 1", "it has 'a', which is no number"),
    "texts in a form": ("'%99999999999d' % 1 == 1", "it has '%99999999999d', which is no number"),
    "texts with fields": ("f'{1:>10000000000}' == 1", "it has \"f'{1:>10000000000}'\", which is no number"),
    "lists": ("[1] * 10 ** 9 == 1", "it has '[1]', which is no number"),
    "lists by rules": ("[[0 for min in max] for abs in max] == 1", "it has '[[0 for min in max] for abs in max]', "),
    "functions": ("(lambda: 1)() == 1", "it calls 'lambda: 1', which is none of min, max, abs"),
    "other functions": ("open('x') == 1", "nothing is named 'open'"),
    "functions of functions": ("min(1)(2) == 1", "it calls 'min(1)', which is none of min, max, abs"),
    "named arguments": ("max(1, 2, key=abs) == 1", "it has 'key=abs', which is no number"),
    "assignments": ("(min := 3) == 3", "it has '(min := 3)', which is no number"),
    "imaginary numbers": ("1j == 1", "it has 1j, which is no number"),
    "nothing": ("None == 1", "it has None, which is no number"),
    "long numbers": ("0x" + "f" * 300 + " > 1", "it has a whole number of more than 1024 bits"),
    "longer ones": ("9" * 900 + " > 1", "it has a whole number of more than 1024 bits"),
    "length": ("1" + "+1" * 20000 + " > 0", "it has 40005 characters, more than 1000"),
    "depth": ("-" * 990 + "1 == 1", "it cannot be read"),
    "brackets": ("(" * 400 + "1" + ")" * 400 + " == 1", "too many nested parentheses"),
}  # fmt: skip


@pytest.mark.parametrize("kind", NO_EXPRESSIONS)
def test_what_is_more_than_numbers_is_refused_when_it_is_read(kind):
    text, reason = NO_EXPRESSIONS[kind]
    with pytest.raises(NoConstraintError) as caught:
        Constraint.of(text)
    assert reason in str(caught.value)


# Refused on a machine, without being worked out.
NO_TRUTHS = {
    "9 ** 9 ** 9 > 1": "it has a whole number of more than 1024 bits",
    "block_in ** 99999999999 > 1": "it has a whole number of more than 1024 bits",
    "block_in ** block_in ** block_in > 1": "it has a whole number of more than 1024 bits",
    "(-3) ** 1000 > 1": "it has a whole number of more than 1024 bits",
    "1 << 10 ** 12 > 1": "it has a whole number of more than 1024 bits",
    "2 ** 1000 * 2 ** 1000 > 1": "it has a whole number of more than 1024 bits",
    "2.0 ** 5000 > 1": "Numerical result out of range",
    "1 / 0 > 1": "division by zero",
    "1 << -1 > 1": "negative shift count",
    "abs(1, 2) > 1": "abs() takes exactly one argument (2 given)",
    "max(3) > 1": "'int' object is not iterable",
    "memory.latency + 1": "it is 33 on machine 'vta', neither true nor false",
}


@pytest.mark.parametrize("text", NO_TRUTHS)
def test_what_has_no_truth_is_told(text):
    with pytest.raises(NoConstraintError) as caught:
        Constraint.of(text).holds(VTA)
    assert NO_TRUTHS[text] in str(caught.value)


MISTAKES = {
    "when it is read": ("f'{1:>10000000000}' == 1", 3, "constraints", "A constraint of {file}, line 3, must be an "
        "expression like 'block_in <= 32', and is not: it has \"f'{{1:>10000000000}}'\", which is no number. Correct "
        "it."),
    "on a machine": ("9**9**9 > 1", 2, "constraints", "constraints of {file}, line 2, must be true or false of every "
        "machine, and are not. The constraint '9**9**9 > 1' must be true or false of every machine; it has a whole "
        "number of more than 1024 bits."),
}  # fmt: skip


@pytest.mark.parametrize("kind", MISTAKES)
def test_both_are_mistakes_of_the_file_with_their_line(kind, tmp_path):
    text, *told = MISTAKES[kind]
    rest = "workloads:\n  - matmul: {m: 1, n: 1, k: 1}\n"
    check_mistake(tmp_path, f'constraints:\n  - block_in < 32\n  - "{text}"\n{rest}', *told)


def test_functions_are_those_that_the_page_names():
    assert [*FUNCTIONS] == ["min", "max", "abs"]
