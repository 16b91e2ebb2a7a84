"""The default job of `lathe run`: compile the digits network, run the held-out images, and compare every output."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.builder import build
from lathe.configs import HardwareConfig, LatheError
from lathe.engines import CYCLE_MODEL, engine_named, simulate
from lathe.frontend import reference
from lathe.networks.digits.network import DEFAULT_BATCH, Digits, Network, digits_network, load_digits
from lathe.result_diff import output_differences, time_differences
from lathe.sim import Result

INPUT, OUTPUT = "images", "logits"

Progress = Callable[[str, int, int], None]


def silent(stage: str, done: int, total: int) -> None:
    """Ignore progress."""


class JobError(LatheError):
    """An invalid number of images or batch size."""


@dataclass(frozen=True, eq=False)
class Job:
    """The results of the job.

    `first` is the first launch with its trace; every launch runs the same program, whose timing does not depend on the
    data, so all have its cycles and counters. `outputs` and `expected` are the logits (images, 10) int8 of the machine
    and of NumPy. `differences` are sentences on differences between `engine` and the cycle model, in the outputs of
    all launches and the timing of the first; None if `engine` is the cycle model. `build_seconds` and
    `simulate_seconds` are wall-clock times.
    """

    machine: HardwareConfig
    engine: str
    batch: int
    launches: int
    labels: NDArray[np.uint8]
    outputs: NDArray[np.int8]
    expected: NDArray[np.int8]
    first: Result
    differences: tuple[str, ...] | None
    build_seconds: float
    simulate_seconds: float

    @property
    def images(self) -> int:
        """The number of images."""
        return len(self.labels)

    @property
    def correct(self) -> int:
        """The number of images that the machine classifies correctly."""
        return int((self.outputs.argmax(axis=1) == self.labels).sum())

    @property
    def wrong_outputs(self) -> int:
        """The number of the machine's output values that differ from NumPy's."""
        return int((self.outputs != self.expected).sum())

    @property
    def cycles(self) -> int:
        """Cycles of all launches."""
        return self.first.cycles * self.launches

    @property
    def utilisation(self) -> float:
        """The share of cycles in which the GEMM core starts a micro-op."""
        return self.first.counters.utilisation

    @property
    def efficiency(self) -> float | None:
        """The network's multiply-accumulates divided by those that the GEMM core could do in these cycles."""
        return self.first.efficiency


def run_digits(
    machine: HardwareConfig,
    *,
    images: int | None = None,
    batch: int | None = None,
    engine: str = CYCLE_MODEL,
    progress: Progress = silent,
) -> Job:
    """Compile the network for `batch` images and run the first `images` of the held-out set, all by default.

    The default batch is 60, or all images if there are fewer. If the batch does not divide the images, blank images
    fill the last launch; their outputs are ignored, but their cycles count. The results of another `engine` than the
    cycle model are compared with the cycle model's. `progress` is called with the stage, the number of steps done, and
    the number of steps.

    Raises :class:`JobError`, EngineError, and errors of compiling for the machine or building it.
    """
    engine_named(engine)
    digits = load_digits()
    count = len(digits.images) if images is None else images
    batch = min(DEFAULT_BATCH, max(count, 1)) if batch is None else batch
    check(count, batch, len(digits.images))
    progress("compiling", 0, 1)
    begun = time.perf_counter()
    network = digits_network(batch)
    program = build(network.logits, network.tensors, machine, constants=network.constants)
    built = time.perf_counter()
    progress("compiling", 1, 1)
    progress("building the machine", 0, 1)
    engine_named(engine).prepare(machine, None)
    launches = -(-count // batch)
    filled = np.zeros((launches * batch, *digits.images.shape[1:]), np.int8)
    filled[:count] = digits.images[:count]
    results, differences = [], []
    simulating = 0.0
    for launch in range(launches):
        progress("simulating", launch, launches)
        inputs = {INPUT: filled[launch * batch : (launch + 1) * batch]}
        begun_launch = time.perf_counter()
        results.append(simulate(program, inputs, engine=engine, trace=launch == 0))
        simulating += time.perf_counter() - begun_launch
        if engine != CYCLE_MODEL:
            modelled = simulate(program, inputs, trace=launch == 0)
            if launch == 0:
                differences += time_differences(CYCLE_MODEL, modelled, engine, results[0])
            differences += output_differences(CYCLE_MODEL, modelled.outputs, engine, results[-1].outputs)
    progress("simulating", launches, launches)
    assert len({result.cycles for result in results}) == 1, "launches of one program took different times"
    return Job(
        machine=machine,
        engine=engine,
        batch=batch,
        launches=launches,
        labels=digits.labels[:count],
        outputs=np.concatenate([result.outputs[OUTPUT] for result in results])[:count],
        expected=expected_logits(digits, count),
        first=results[0],
        differences=None if engine == CYCLE_MODEL else tuple(differences),
        build_seconds=built - begun,
        simulate_seconds=simulating,
    )


def expected_logits(digits: Digits, count: int) -> NDArray[np.int8]:
    """The NumPy reference results for the first `count` images."""
    network: Network = digits_network(count)
    arrays: dict[str, NDArray[Any]] = {INPUT: digits.images[:count], **network.constants}
    logits = reference(network.logits, arrays)
    assert isinstance(logits, np.ndarray)
    return logits


def check(images: int, batch: int, available: int) -> None:
    """Raise :class:`JobError` for invalid counts."""
    if not 1 <= images <= available:
        raise JobError(
            f"The number of images must be from 1 to {available}, those held out from training, not {images}."
        )
    if batch < 1:
        raise JobError(f"The batch, the number of images of a launch, must be at least 1, not {batch}.")
    if batch > images:
        raise JobError(
            f"The batch, the number of images of a launch, must be at most the number of images, {images}, not {batch}."
        )
