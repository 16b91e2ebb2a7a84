"""Whole ONNX networks, quantised by onnxruntime, on `lathe16` with an ideal memory (latency 0).

The models are those of `examples/models` with seeded weights, and trained ones of the extra `models` if installed;
`network_models.py` has the models and their inputs. Each is built and run in a separate process, whose peak memory is
reported. Outputs are compared with the NumPy reference and with onnxruntime without graph optimisations; so is each
layer alone, on onnxruntime's inputs of it. Rounding of exact halves, which float32 may do either way, is ignored.

    python benchmarks/networks.py [--json] [--only ResNet-50]
"""

import argparse
import importlib.util
import resource
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from figures import Figure, at_least, at_most, one_core, seconds, show
from network_models import CASES, MEASURED
from quantised_macs import left_to_the_host

import lathe as lt
from lathe.frontend.onnx.run_host_nodes import run_on_host
from lathe.networks.comparison import compared, compared_with_onnxruntime
from lathe.networks.layer_comparison import layers_compared

OUTSIDE = ("conv0", "maxpool2", "globalaveragepool46", "flatten47", "classifier")
"""Layers outside ResNet-18's body."""


def written(name: str, path: Path) -> None:
    """Write the quantised model; in a separate process, so as not to count towards the network's memory."""
    CASES[name].write(path)


def measured(name: str, path: Path) -> list[Figure]:
    """The figures of one model."""
    one_core()
    machine = lt.load_config("lathe16").with_(**{"memory.latency": 0})
    inputs = CASES[name].inputs(MEASURED)
    start = time.perf_counter()
    network = lt.from_onnx(path)
    program = network.build(machine)
    built = time.perf_counter() - start
    result = lt.simulate(program, inputs)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6  # kilobytes, on Linux
    rows = [row for row in result.layers if row.where == "npu"]
    macs, left = sum(row.macs for row in rows), left_to_the_host(network, result)
    found = [
        Figure("layers on the NPU", len(rows), ""),
        Figure("nodes on the host", len(result.layers) - len(rows), ""),
        Figure("multiply-accumulates", macs, ""),
        at_least("quantised ones on the NPU", macs / (macs + left), "of all", 0.99),
        Figure("cycles", result.cycles, ""),
        *body(name, rows),
        Figure("bound", sum(row.bound for row in rows), "cycles"),
        Figure("efficiency", round(macs / max(result.cycles * machine.multipliers, 1), 3), "of peak"),
        Figure("bytes", sum(row.bytes for row in rows), ""),
        limited(name, "compiled cold in", built, 15),
        limited(name, "simulated in", seconds(lambda: lt.simulate(program, inputs), 3), 0.8),
        limited(name, "timing only in", seconds(lambda: lt.simulate(program, timing_only=True), 3), 0.15),
        at_most("memory", memory, "GB", 1),
        *agreement(name, network, inputs, result),
    ]
    return [Figure(f"{name}: {each.name}", each.value, each.unit, each.target, each.met) for each in found]


def body(name: str, rows: list[lt.LayerRow]) -> list[Figure]:
    """For ResNet-18, the cycles after max-pool and before global average pooling."""
    if not name.startswith("ResNet-18"):
        return []
    return [at_most("body", sum(row.cycles for row in rows if row.name not in OUTSIDE), "cycles", 6.5e6)]


def limited(name: str, what: str, value: float, limit: float) -> Figure:
    """A time in seconds, with a target for ResNet-18."""
    return at_most(what, value, "s", limit) if name.startswith("ResNet-18") else Figure(what, round(value, 3), "s")


def agreement(name: str, network: lt.Network, inputs: dict[str, np.ndarray], result: lt.NetworkResult) -> list[Figure]:
    """Exact agreement with NumPy, similarity to onnxruntime, and similarity of the quantised to the float model."""
    case, (output,) = CASES[name], network.model.outputs
    expected = lt.reference(network, inputs)[output]
    assert np.array_equal(result.outputs[output], expected), f"{name}: bits differ from NumPy"
    (whole,) = compared_with_onnxruntime(network.model, inputs, result.outputs)
    quantised = run_on_host(network.model.proto.SerializeToString(), inputs, (output,))[output]
    plain = run_on_host(case.model().SerializeToString(), inputs, (output,))[output]
    layers = layers_compared(network, inputs)
    figures = [at_least("cosine with onnxruntime", whole.cosine, "", 0.999)]
    if case.decides is not None:
        answers = [np.argmax(values, case.decides) for values in (result.outputs[output], quantised)]
        alike = float(np.mean(answers[0] == answers[1]))
        # Decisions for each pixel are often ties, so that they have no target.
        few = answers[0].size < 1000
        figures.append(at_least("top-1 as onnxruntime", alike, "", 1) if few else Figure("top-1", round(alike, 4), ""))
    return [
        *figures,
        Figure("cosine of quantised with float", round(compared(output, quantised, plain).cosine, 4), ""),
        at_least("least equal layer", min(each.equal + each.halves for each in layers), "of values", 0.999),
        at_most("most different layer", max(each.largest for each in layers), "units", 1),
    ]


def in_subprocess(work: object, *arguments: object) -> object:
    """Call a function in a separate process."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(work, *arguments).result()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print a list of {name, value, unit, target, met}")
    parser.add_argument("--only", action="append", choices=CASES, metavar="NAME", help=f"one of: {', '.join(CASES)}")
    given = parser.parse_args()
    figures = []
    with tempfile.TemporaryDirectory() as folder:
        for name in given.only or CASES:
            package = CASES[name].package
            if not given.only and package and importlib.util.find_spec(package) is None:
                print(f"{name} is skipped: package {package!r} is not installed (extra models)", file=sys.stderr)
                continue
            path = Path(folder) / "model.onnx"
            in_subprocess(written, name, path)
            found = in_subprocess(measured, name, path)
            if not given.json:
                show(found, as_json=False)
            figures += found
    if given.json:
        show(figures, as_json=True)


if __name__ == "__main__":
    main()
