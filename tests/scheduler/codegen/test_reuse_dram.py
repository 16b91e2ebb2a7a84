"""DRAM reuse: temporaries are allocated at addresses of dead ones."""

import numpy as np
import pytest

import lathe as lt
from lathe.isa import Load, MemoryType, Program, ProgramError, Segment, Store
from lathe.scheduler.codegen.reuse_dram import reuse_dram
from lathe.scheduler.schedule_ir.sync import Origin
from lathe.scheduler.stream.memory_effects import EffectsTracker

LATHE16 = lt.load_config("lathe16")
GRAIN = LATHE16.out_element_bytes


def chain(count: int, *, fork: bool = False) -> tuple[lt.Tensor, list[lt.Tensor], dict[str, np.ndarray]]:
    """A chain of 8-bit GEMMs, too large for the scratchpads; ``fork`` adds the first to the last."""
    generator = np.random.default_rng(0)
    made = lt.placeholder((512, 64), "int8", name="data")
    tensors, layers = [made], []
    for number in range(count):
        weights = lt.placeholder((64, 64), "int8", name=f"weights{number}")
        sums = lt.dense(made, weights, name=f"sums{number}")
        made = lt.compute(sums.shape, lambda i, j, of=sums: (of[i, j] >> 9).astype("int8"), f"layer{number}")
        tensors.append(weights)
        layers.append(made)
    if fork:
        first, last = layers[0], layers[-1]
        made = lt.compute(
            last.shape,
            lambda i, j: ((first[i, j].astype("int32") + last[i, j].astype("int32")) >> 1).astype("int8"),
            "both",
        )
    inputs = {each.name: generator.integers(-128, 128, each.shape, np.int8) for each in tensors}
    return made, tensors, inputs


def places(program: Program) -> dict[str, tuple[int, int]]:
    return {each.name: (each.address, each.end) for each in program.segments if each.role == "temporary"}


def built(output: lt.Tensor, tensors: list[lt.Tensor], inputs: dict[str, np.ndarray]) -> Program:
    """The program, after validation, verification (no races), and bit-exact comparison with NumPy."""
    program = lt.build(output, [*tensors, output], LATHE16, check=True)
    assert lt.verify(program) == []
    made = lt.simulate(program, inputs).outputs[output.name]
    assert np.array_equal(made, lt.reference(output, inputs))
    return program


@pytest.mark.slow
def test_two_addresses_are_enough_for_a_chain(tmp_path):
    output, tensors, inputs = chain(6)
    program = built(output, tensors, inputs)
    found = places(program)
    assert len(found) == 5
    assert len(set(found.values())) == 2
    program.save(tmp_path / "chain.npz")
    assert places(Program.load(tmp_path / "chain.npz")) == found


@pytest.mark.slow
def test_a_tensor_that_is_read_again_keeps_its_address():
    found = places(built(*chain(5, fork=True)))
    assert found["layer0"] not in (found[name] for name in found if name != "layer0")
    assert len(set(found.values())) == 3


def moved(address: int, count: int, *, stores: bool) -> list[tuple[Load | Store, Origin]]:
    kind, memory = (Store, MemoryType.OUT) if stores else (Load, MemoryType.INP)
    made = kind(memory_type=memory, sram_base=0, dram_base=address // GRAIN, y_size=1, x_size=count, x_stride=count)
    return [(made, Origin(0))]


def segments(*names: str) -> list[Segment]:
    return [Segment(name, "temporary", 4096 * (n + 1), 4096) for n, name in enumerate(names)]


def shared(entries, kept):
    """Addresses after sharing, of segments and of instructions."""
    words = np.zeros(0, np.uint32)
    tracked = kept[0].address, kept[-1].end
    stream, made = reuse_dram(entries, kept, EffectsTracker(LATHE16, words, GRAIN, tracked), 4096)
    return [each.address // 4096 for each in made], [each.dram_base * GRAIN // 4096 for each, _ in stream]


WHOLE = 4096 // GRAIN


def used(at: int, stored: int = WHOLE):
    return moved(4096 * at, stored, stores=True) + moved(4096 * at, WHOLE, stores=False)


def test_disjoint_live_ranges_share_an_address():
    kept = segments("a", "b", "c")
    assert shared(used(1) + used(2) + used(3), kept) == ([1, 1, 1], [1] * 6)
    crossing = moved(4096, WHOLE, stores=True) + used(2) + moved(4096, WHOLE, stores=False)
    assert shared(crossing + used(3), kept) == ([1, 2, 1], [1, 2, 2, 1, 1, 1])


def test_zeros_that_are_never_stored_stay():
    """A segment shares no memory if a byte is loaded that has not been stored before."""
    kept = segments("a", "b", "c")
    assert shared(used(1) + used(2, WHOLE - 1) + used(3), kept) == ([2, 1, 2], [2, 2, 1, 1, 2, 2])


def test_outputs_share_no_memory():
    a, b, c = segments("a", "b", "c")
    kept = [a, Segment("b", "output", b.address, b.nbytes), c]
    assert shared(used(1) + used(2) + used(3), kept) == ([2, 1, 2], [2, 2, 1, 1, 2, 2])


@pytest.mark.sample(1)
@pytest.mark.parametrize("role", ["input", "output"])
def test_only_temporaries_may_overlap(role):
    output, tensors, inputs = chain(4)
    program = built(output, tensors, inputs)
    first = next(each for each in program.segments if each.role == role)
    inside = Segment("inside", "temporary", first.address + 64, 64)
    with pytest.raises(ProgramError) as error:
        Program(
            program.config, program.instructions, (*program.segments, inside), program.images, program.labels,
            program.label_of,
        )  # fmt: skip
    assert str(error.value) == (
        f"Segment 'inside' must start at or after {first.end:#x}, where segment {first.name!r} ends, not at "
        f"{inside.address:#x}. Move one of the two."
    )
