"""Any value for any argument of the public functions is accepted, or refused with a LatheError.

Each call is valid except for one argument, which is one of VALUES. A failure prints the call.
"""

from functools import cache, partial

import numpy as np
import pytest

import lathe as lt

CONFIG = lt.load_config("tiny")
A = lt.placeholder((4, 8), "int8", name="A")
B = lt.relu(A, name="B")
IMAGE = lt.placeholder((1, 4, 4, 8), name="image")
WEIGHT = lt.placeholder((8, 3, 3, 8), name="weight")
SUMS = lt.compute((4, 8), lambda i, j: A[i, j].astype("int32"), name="sums")
ZEROS = {"A": np.zeros((4, 8), np.int8)}
PROGRAM = lt.build(B, [A, B], CONFIG)
RESULT = lt.simulate(PROGRAM, ZEROS)
STREAM = {"insns": [[3] + [0] * 15], "insn_addr": 0, "page_addrs": [0], "pages": [[0] * 4096], "tokens": [0] * 4}
AXIS = lt.reduce_axis((0, 4), "k")
STREAM_SEGMENT = lt.Segment("i", "instructions", 0, 16)


def replayed(key, value):
    """A stream with one value replaced."""
    return lt.replay(CONFIG, STREAM | {key: value})


VALUES = [
    *(None, True, 0, -1, 3, 2**31, 2**64, 10**30, 1.5, float("nan"), "", "x", "vta", "int8", "a" * 300, "a\0b", b"x"),
    *([], [1], [[1], [2, 3]], (), (1,), (None,), {}, {"A": 1}, {1: 2}, set(), range(3), slice(1, 2), ..., int),
    *(np.zeros(3), np.zeros((4, 8), np.int8), np.int64(3), np.float64(2), np.True_, np.array([{}], object)),
    *(A, B, CONFIG, PROGRAM, RESULT, AXIS, A[0, 0], lt.AXIS_SEPARATOR, lt.undef, lt.MemoryType.INP, lt.Finish()),
    *(lambda: 0, lambda *_: None, lambda i: i, lambda i, j: [j, i], lambda *_: "x"),
]  # fmt: skip

FUNCTIONS = [
    (lt.placeholder, ((4, 8), "int8", "X"), {}),
    (lt.reduce_axis, ((0, 4), "k"), {}),
    (lt.compute, ((4, 8), lambda i, j: A[i, j], "X"), {"where": lambda i, j: j <= i, "attrs": {}}),
    (lt.const, (3, "int8"), {}),
    (lt.select, (A[0, 0] > 0, A[0, 0], 1), {}),
    (lt.sum, (A[0, 0], AXIS), {"where": A[0, 1] > 0}),
    (lt.max, (A[0, 0], 1), {}),
    (lt.parameter, ("N",), {"minimum": 1, "maximum": 9}),
    (lt.state, ((4,), "int8", "s"), {"init": 0}),
    (lt.recurrence, ((4,), lambda s, i: s[i - 1] + 1), {"init": 0, "name": "r", "dtype": "int8"}),
    (lt.add, (A, A), {}),
    (lt.bias_add, (SUMS, lt.placeholder((8,), "int32", name="bias")), {}),
    (lt.clip, (A, 0, 3), {}),
    (lt.dense, (A, lt.placeholder((8, 8), name="W")), {}),
    (lt.matmul, (A, lt.placeholder((8, 4), name="W")), {"transpose_b": False, "name": "M"}),
    (lt.conv2d, (IMAGE, WEIGHT), {"stride": 1, "padding": 1, "pad_value": 0, "dilation": 1, "groups": 1}),
    (lt.pad2d, (IMAGE, 1), {"value": 0, "layout": "NHWC"}),
    (lt.max_pool2d, (IMAGE, 2), {"stride": 2, "padding": 0}),
    (lt.requantise, (SUMS, 3), {}),
    (lt.reshape, (A, (32,)), {}),
    (lt.build, (B, [A, B], CONFIG), {"constants": {}, "check": False, "parameters": None}),
    (lt.lower, (B, [A, B], CONFIG), {"stage": "loops"}),
    (lt.explain, (B, CONFIG), {"parameters": None}),
    (lt.bound, (B, CONFIG), {"parameters": None}),
    (lt.bind, (B, {}), {}),
    (lt.interpret, (lt.create_schedule(B), ZEROS), {"reads": {}}),
    (lt.reference, (B, ZEROS), {}),
    (lt.simulate, (PROGRAM, ZEROS), {"engine": "sim", "timing_only": False, "trace": True, "tokens": (0, 0, 0, 0)}),
    (lt.replay, (CONFIG, STREAM), {"engine": "sim", "memory_end": 8192, "bus_error": lt.BusError("read", 9)}),
    *((partial(replayed, key), (value,), {}) for key, value in STREAM.items()),
    (lt.verify, (PROGRAM,), {}),
    (lt.host_copies, (PROGRAM,), {}),
    (lt.cycles_by_label, (RESULT,), {}),
    (lt.disassemble, (CONFIG, [lt.Finish()]), {}),
    (lt.assemble, (CONFIG, "finish"), {}),
    (lt.load_config, ("tiny",), {}),
    (CONFIG.with_, (), {"batch": 1, "memory.latency": 3, "name": "x", "extensions": (), "inp_bits": 8}),
    (CONFIG.with_, (), {"memory": CONFIG.memory, "memory.latency": 3, "timing": CONFIG.timing}),
    (lt.Program, (CONFIG, (lt.Finish(),), (STREAM_SEGMENT,), {}, ("x",), np.zeros(1, np.int32)), {}),
    (lt.Layout, ((4,), "int8", (lt.PhysicalAxis(0, 1, 4),)), {"view": (4,)}),
    (PROGRAM.segment, ("A",), {}),
    (RESULT.trace.of_unit, ("load",), {}),
    (RESULT.outputs.__getitem__, ("B",), {}),
    (lambda *fields: lt.disassemble(CONFIG, [lt.Load(*fields)]), (lt.MemoryType.INP, 0, 0, 1, 1, 1), {}),
    (lambda *fields: lt.disassemble(CONFIG, [lt.Alu(*fields)]), (lt.AluOp.ADD, 0, 1, 1, 1, 0, 0, 0, 0), {}),
]  # fmt: skip

READER = object()

COMMANDS = {
    "split": (("i",), {"factor": 2}),
    "tile": (("i", "j", 2, 4), {}),
    "reorder": (("j", "i"), {}),
    "fuse": (("i", "j"), {}),
    "unroll": (("i", 2), {}),
    "vectorize": (("j", 4), {}),
    "parallelize": (("i",), {}),
    "interchange": (("i", "j"), {}),
    "reverse": (("i",), {}),
    "shift": (("i", 1), {}),
    "skew": (("i", "j", 1, 1), {}),
    "separate": (("i", 3), {}),
    "set_scope": (("acc",), {}),
    "emit_insn": (("i", "alu"), {}),
    "store_in": ((lambda i, j: [i, j],), {"scope": "acc"}),
    "double_buffer": ((2,), {}),
    "vthread": (("i", 2), {}),
    "send": (("compute", "i"), {}),
    "receive": (("compute", "i"), {"ahead": 1}),
    "transform_layout": ((lambda i, j: [j // 3, j % 3, i],), {"pad_value": 0}),
    "set_schedule": (("{ B[i, j] -> [j, i] }",), {}),
    "compute_at": ((READER, "i"), {"region": "box"}),
    "after": ((READER, "i"), {}),
    "reuse_at": ((READER, "i"), {"form": "rotate"}),
}  # fmt: skip


def command(name, *arguments, **keywords):
    """A primitive on a new schedule; READER stands for the consumer of the stage."""
    C = lt.compute((4, 8), lambda i, j: lt.min(B[i, j], 100), name="C")
    s = lt.create_schedule(C)
    getattr(s[B], name)(*(s[C] if each is READER else each for each in arguments), **keywords)


@cache
def calls():
    """Every call with one argument replaced: function, arguments, the replaced one, and the number of its value."""
    rows = [*FUNCTIONS, *((partial(command, name), *given) for name, given in COMMANDS.items())]
    return [
        (function, positional, keywords, place, number)
        for function, positional, keywords in rows
        for place in (*range(len(positional)), *keywords)
        for number in range(len(VALUES))
    ]


def refused(function, positional, keywords, place, value):
    """Whether a call with `value` as one argument is refused. Errors other than LatheError are raised."""
    arguments = [value if at == place else each for at, each in enumerate(positional)]
    named = {name: value if name == place else each for name, each in keywords.items()}
    try:
        function(*arguments, **named)
    except lt.LatheError as error:
        return len(str(error).splitlines()) == 1
    return False


@pytest.mark.parametrize("function", range(len(FUNCTIONS)))
def test_the_calls_are_right_as_they_stand(function):
    called, positional, keywords = FUNCTIONS[function]
    called(*positional, **keywords)


def check(chosen):
    took = 0
    for function, positional, keywords, place, number in chosen:
        try:
            took += not refused(function, positional, keywords, place, VALUES[number])
        except Exception as error:
            name = getattr(function, "__name__", repr(function))
            raise AssertionError(f"{name}: argument {place!r} as {VALUES[number]!r}: {error!r}") from error
    return took


@pytest.mark.sample(1)
@pytest.mark.parametrize("part", range(8))
def test_every_value_is_taken_or_refused(part):
    chosen = calls()[part::8]
    assert 0 < check(chosen) < len(chosen)
