"""Per-channel rescaling, additions and lookups: outputs are bit-exact with the language's semantics."""

from itertools import product

import numpy as np
import pytest
from error_checks import raises
from random_programs import Choice
from random_quantised import quantised, quantised_machines, rescaling

import lathe as lt
from lathe.frontend import placeholders
from lathe.isa.instructions import Instruction
from lathe.isa.semantics import MachineState, run
from lathe.isa.sparse_memory import PagedMemory
from lathe.sim.simulate import memory_of

PAGE = 4096
MACHINES = {name: rescaling(lt.load_config(name)) for name in ("tiny", "vta", "batch4", "wide", "lathe16")}


def meant(program: lt.Program, inputs: dict) -> dict:
    """The outputs of a program, by the functional semantics of its instructions."""
    content = np.asarray(memory_of(program, inputs).content, np.uint8)
    pages = np.zeros((-(-len(content) // PAGE), PAGE), np.uint8)
    pages.reshape(-1)[: len(content)] = content
    memory = PagedMemory.of(np.arange(len(pages), dtype=np.uint64) * PAGE, list(pages))
    run(MachineState(program.config, memory, list(program.tokens_in)), program.instructions)
    found = {}
    for segment in program.outputs:
        layout = segment.layout
        raw = np.frombuffer(bytes(memory.read(segment.address, segment.nbytes)), layout.physical_dtype)
        found[segment.tensor] = layout.unpack(raw.reshape(layout.physical_shape))
    return found


def check(outputs, config, inputs, schedule=None) -> lt.Program:
    """The program of a schedule, or of unscheduled outputs; fails unless semantics and simulator agree with NumPy."""
    wanted = [outputs] if isinstance(outputs, lt.Tensor) else list(outputs)
    program = lt.build(schedule or wanted, [*placeholders(wanted), *wanted], config, check=True)
    assert lt.verify(program) == []
    expected = lt.reference(wanted, inputs)
    for found, tensor in product((meant(program, inputs), lt.simulate(program, inputs).outputs), wanted):
        assert found[tensor.name].dtype == expected[tensor.name].dtype
        np.testing.assert_array_equal(found[tensor.name], expected[tensor.name])
    return program


def count(program: lt.Program, kind: type[Instruction]) -> int:
    return sum(isinstance(each, kind) for each in program.instructions)


class Layer:
    """A convolution of 8×8 pixels, 32 to 40 channels, and what may come after it."""

    def __init__(self) -> None:
        self.generator = np.random.default_rng(3)
        self.inputs: dict[str, np.ndarray] = {}
        image, weights = self.int8("image", 1, 8, 8, 32), self.int8("weights", 40, 3, 3, 32)
        self.conv = lt.conv2d(image, weights, padding=1, name="conv")
        self.parameters = lt.placeholder((40, 2), "int32", name="parameters")
        scales, biases = self.generator.uniform(1e-4, 1e-2, 40), self.generator.integers(-5000, 5000, 40)
        self.inputs["parameters"] = lt.rescale_parameters(scales, biases)

    def int8(self, name: str, *shape: int) -> lt.Tensor:
        self.inputs[name] = self.generator.integers(-128, 128, shape, np.int8)
        return lt.placeholder(shape, "int8", name=name)

    def quantised(self, **how) -> lt.Tensor:
        return lt.requantise(self.conv, parameters=self.parameters, name="quantised", **how)

    def added(self, *, swapped: bool = False, **how) -> lt.Tensor:
        del self.inputs["parameters"]
        other = self.int8("residual", *self.conv.shape)
        pair = lt.placeholder((40, 2, 2), "int32", name="pair")
        scales = self.generator.uniform(1e-4, 1e-2, 40), self.generator.uniform(1e-2, 1, 40)
        self.inputs["pair"] = lt.rescaled_add_parameters(scales[::-1] if swapped else scales, (7, -3))
        operands = (other, self.conv) if swapped else (self.conv, other)
        return lt.rescaled_add(*operands, parameters=pair, name="added", **how)


@pytest.fixture
def layer() -> Layer:
    return Layer()


def once(program: lt.Program) -> bool:
    """Whether RESCALE processes each stored vector exactly once, and no other vector."""
    passes = (each for each in program.instructions if isinstance(each, lt.Rescale))
    stores = (each for each in program.instructions if isinstance(each, lt.Store))
    rescaled = sum(each.iter_out * each.iter_in * (each.uop_end - each.uop_bgn) for each in passes)
    return rescaled == sum(each.y_size * each.x_size for each in stores) > 0


@pytest.fixture(params=sorted(MACHINES))
def machine(request: pytest.FixtureRequest) -> lt.HardwareConfig:
    return MACHINES[request.param]


@pytest.mark.sample(1)
def test_a_convolution_with_bias_factors_and_relu_takes_one_pass(layer, machine):
    program = check(layer.quantised(zero_point=-5, relu=True), machine, layer.inputs)
    assert once(program)
    assert count(program, lt.Alu) == 0


@pytest.mark.sample(1)
def test_results_of_8_bits_without_a_sign(layer, machine):
    check(layer.quantised(zero_point=99, dtype="uint8"), machine, layer.inputs)


@pytest.mark.sample(1)
@pytest.mark.parametrize("per_channel", [False, True])
def test_a_look_up_of_a_rescaled_value_is_part_of_its_pass(layer, machine, per_channel):
    table = layer.int8("table", 256, *([40] if per_channel else []))
    output = lt.lookup(layer.quantised(), table, name="output")
    program = check(output, machine, layer.inputs)
    assert all(each.lookup for each in program.instructions if isinstance(each, lt.Rescale))
    assert once(program)
    assert count(program, lt.Alu) == 0


@pytest.mark.sample(1)
def test_a_value_that_others_read_is_looked_up_by_itself(layer, machine):
    quantised = layer.quantised()
    output = lt.lookup(quantised, layer.int8("table", 256), name="output")
    program = check([quantised, output], machine, layer.inputs)
    assert {each.lookup for each in program.instructions if isinstance(each, lt.Rescale)} == {False, True}


@pytest.mark.sample(5)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_an_input_is_looked_up(machine, dtype):
    data, table = lt.placeholder((9, 40), dtype, name="data"), lt.placeholder((256, 40), "uint8", name="table")
    generator = np.random.default_rng(1)
    inputs = {each.name: generator.integers(0, 256, each.shape).astype(each.dtype) for each in (data, table)}
    check(lt.lookup(data, table, name="output"), machine, inputs)


@pytest.mark.sample(1)
@pytest.mark.parametrize("swapped", [False, True])
def test_a_residual_is_added_in_the_pass(layer, machine, swapped):
    program = check(layer.added(zero_point=3, relu=True, swapped=swapped), machine, layer.inputs)
    assert all(each.add for each in program.instructions if isinstance(each, lt.Rescale))
    assert once(program)


@pytest.mark.sample(1)
def test_a_sum_is_added_to_itself_where_it_is(layer, machine):
    """Both factors apply to the same accumulators: nothing is copied."""
    pair = lt.placeholder((40, 2, 2), "int32", name="pair")
    del layer.inputs["parameters"]
    layer.inputs["pair"] = lt.rescaled_add_parameters((layer.generator.uniform(1e-4, 1e-2, 40), 1e-5), (7, -3))
    program = check(lt.rescaled_add(layer.conv, layer.conv, parameters=pair, name="added"), machine, layer.inputs)
    assert once(program)
    assert not any(isinstance(each, lt.Alu) for each in program.instructions)


@pytest.mark.sample(1)
@pytest.mark.parametrize(("name", "memory"), [("lathe16", lt.MemoryType.INP), ("tiny", lt.MemoryType.ACC8)])
def test_a_residual_comes_through_the_matrix_core_where_that_is_shorter(layer, name, memory):
    """A vector takes two bus cycles on one machine, half a cycle on the other."""
    program = check(layer.added(), MACHINES[name], layer.inputs)
    segment = next(each for each in program.segments if each.tensor == "residual")
    config = program.config
    bytes_of = {lt.MemoryType.INP: config.inp_element_bytes, lt.MemoryType.ACC8: config.acc8_element_bytes}
    loads = {
        each.memory_type
        for each in program.instructions
        if isinstance(each, lt.Load) and each.memory_type in bytes_of
        if segment.address <= each.dram_base * bytes_of[each.memory_type] < segment.end
    }
    assert loads == {memory}


def test_a_residual_that_no_product_is_added_to_is_loaded():
    config = MACHINES["lathe16"]
    generator = np.random.default_rng(2)
    a, b = (lt.placeholder((5, 40), "int8", name=name) for name in "ab")
    parameters = lt.placeholder((40, 2, 2), "int32", name="parameters")
    inputs = {each.name: generator.integers(-128, 128, each.shape, np.int8) for each in (a, b)}
    inputs["parameters"] = lt.rescaled_add_parameters((0.5, generator.uniform(0, 1, 40)))
    program = check(lt.rescaled_add(a, b, parameters=parameters, name="sum"), config, inputs)
    assert count(program, lt.Rescale) > 0
    assert all(each.memory_type is not lt.MemoryType.WGT for each in program.instructions if isinstance(each, lt.Load))


def test_half_of_a_tile_is_stored_while_the_other_is_rescaled():
    generator = np.random.default_rng(4)
    data = lt.placeholder((20, 320), "int32", name="data")
    parameters = lt.placeholder((320, 2), "int32", name="parameters")
    inputs = {
        "data": generator.integers(-(2**31), 2**31, data.shape, np.int32),
        "parameters": lt.rescale_parameters(2.0**-24, channels=320),
    }
    program = check(lt.requantise(data, parameters=parameters, name="narrow"), MACHINES["lathe16"], inputs)
    kinds = [type(each) for each in program.instructions if isinstance(each, lt.Rescale | lt.Store)]
    assert kinds.count(lt.Rescale) >= 2
    assert kinds.count(lt.Rescale) == kinds.count(lt.Store)


@pytest.mark.slow
def test_a_machine_without_the_extension_is_named(layer):
    """The error, raised before scheduling, names machine, extension and stage."""
    table = layer.int8("table", 256)
    quantised = layer.quantised()
    output = lt.lookup(quantised, table, name="output")
    tensors = [*placeholders([output]), output]
    plain = lt.load_config("vta")
    for config, mentions in (
        (plain, ("'vta'", "extensions 'rescale'", "stage quantised", "'lookup'", "stage output", "stages by rules")),
        (
            plain.with_(extensions=("rescale",), par_buffer_bytes=32768),
            ("'vta'", "extension 'lookup'", "stage output", "stage by a rule"),
        ),
    ):
        raises(lt.BuildError, lt.build, output, tensors, config, kind="machine", mentions=mentions)
        assert not lt.explain(output, config).maps


def test_a_sum_of_two_wants_an_extension_of_its_own(layer):
    config = lt.load_config("vta").with_(extensions=("rescale",), par_buffer_bytes=32768)
    added = layer.added()
    mentions = ("'vta'", "extension 'rescale_add'", "stage added", "stage by a rule")
    raises(lt.BuildError, lt.build, added, [*placeholders([added]), added], config, kind="machine", mentions=mentions)


def test_all_missing_extensions_are_named_at_once(layer):
    added = layer.added()
    data, table = lt.placeholder((40,), "int8", "data"), lt.placeholder((256,), "int8", "table")
    for output, second in ((added, "'rescale_add'"), (lt.lookup(data, table, name="output"), "'lookup'")):
        mentions = ("'vta'", "extensions 'rescale'", second, f"stage {output.name}", "stage by a rule")
        tensors = [*placeholders([output]), output]
        raises(lt.BuildError, lt.build, output, tensors, lt.load_config("vta"), kind="machine", mentions=mentions)


def test_parameters_that_the_program_computes_are_refused(layer):
    doubled = lt.compute((40, 2), lambda c, w: layer.parameters[c, w] + 0 * layer.parameters[c, 0] + 1, "doubled")
    output = lt.requantise(layer.conv, parameters=doubled, name="output")
    tensors, mentions = [*placeholders([output]), output], ("doubled.par", "'doubled'", "STORE", "par")
    raises(lt.BuildError, lt.build, output, tensors, MACHINES["lathe16"], kind="machine", mentions=mentions)


@pytest.mark.sample(1)
def test_an_operand_that_is_read_again_is_left_as_it_is(layer, machine):
    twice = lt.compute(layer.conv.shape, lambda *i: layer.conv[i] >> 3, "twice")
    check([layer.quantised(), twice], machine, layer.inputs)


def test_the_same_meaning_by_other_words_is_taken_too(layer):
    parameters, conv = layer.parameters, layer.conv

    def element(*i):
        word = parameters[i[-1], 1]
        total = (word >> 6).astype("int64") * (parameters[i[-1], 0] + conv[i]).astype("int64")
        moved = 4 + lt.rounding_shift(total, (word % 64).astype("int64"))
        return lt.max(lt.min(moved, 127), 4).astype("int8")

    program = check(lt.compute(conv.shape, element, "output"), MACHINES["lathe16"], layer.inputs)
    assert [each.relu for each in program.instructions if isinstance(each, lt.Rescale)].count(False) == 0


@pytest.mark.sample(1)
def test_one_factor_for_all_channels(layer, machine):
    one = lt.placeholder((2,), "int32", name="one")
    inputs = {**layer.inputs, "one": lt.rescale_parameters(0.003, 100)[0]}
    del inputs["parameters"]

    def element(*i):
        total = (layer.conv[i] + one[0]).astype("int64") * (one[1] >> 6).astype("int64")
        return lt.min(lt.max(lt.rounding_shift(total, (one[1] % 64).astype("int64")), -128), 127).astype("int8")

    program = check(lt.compute(layer.conv.shape, element, "output"), machine, inputs)
    assert count(program, lt.Alu) == 0


def test_parameters_and_tables_are_placed_by_commands(layer):
    table = layer.int8("table", 256)
    quantised = layer.quantised()
    output = lt.lookup(quantised, table, name="output")
    s = lt.create_schedule(output)
    s[quantised].inline()
    made = s.cache_write(output, "acc")
    parameters = s.cache_read(layer.parameters, "par", [made])
    s.cache_read(table, "lut", [made])
    s[layer.conv].set_scope("acc")
    outer, _ = s[output].split(s[output].axis[3], factor=16)
    s[output].reorder(outer, *s[output].axis[:3])
    for tensor in (made, layer.conv, parameters):
        s[tensor].compute_at(s[output], outer)
    program = check(output, MACHINES["lathe16"], layer.inputs, s)
    loads = [each.memory_type for each in program.instructions if isinstance(each, lt.Load)]
    assert loads.count(lt.MemoryType.PAR) == 3
    assert loads.count(lt.MemoryType.LUT) == 1


@pytest.mark.sample(1)
@pytest.mark.seeds(8, slow=432)
def test_random_layers(seed):
    """Any machine with RESCALE, any layer; if channels are not along the lanes, parameters may not fit."""
    choice = Choice(seed)
    config = quantised_machines(choice)
    outputs, inputs = quantised(choice, choice.number(1, 3))
    fits = True
    try:
        check(outputs, config, inputs)
    except lt.CapacityError:
        fits = False
    assert fits or config.par_depth < 64 or config.lut_depth < 1024, f"seed {seed}: nothing fits {config}"


@pytest.mark.sample(1)
@pytest.mark.seeds(4, slow=60)
def test_random_layers_on_the_gates(seed):
    choice = Choice(seed)
    outputs, inputs = quantised(choice)
    program = lt.build(outputs, [*placeholders(outputs), *outputs], rescaling(lt.load_config("tiny"), 32, 4))
    ran = lt.cosimulate(program, inputs, engines=("sim", "pysim")).check()
    expected = lt.reference(outputs, inputs)
    for tensor in outputs:
        np.testing.assert_array_equal(ran.outputs[tensor.name], expected[tensor.name], f"seed {seed}")
