"""`lathe quantize`: quantise a float model to 8 bits with onnxruntime's quantiser."""

from collections import Counter
from pathlib import Path

import click

from lathe.commands.models import arrays_of, check_seed, random_arrays, shapes_of
from lathe.commands.options import FILE, shape_option
from lathe.commands.terminal import console, grouped, notes, table
from lathe.configs.atomic import atomic_write, check_writable
from lathe.frontend.onnx.errors import ModelError
from lathe.frontend.onnx.reading import Model, read_model
from lathe.networks.quantize import Quantised, Sample, inputs_of, quantised, samples_of

RANDOM_SAMPLES = 8
"""The number of random calibration samples if none are given."""


@click.command()
@click.argument("model", metavar="MODEL.onnx", type=FILE)
@click.option("-o", "--output", type=FILE, required=True, help="The .onnx file to write.")
@click.option(
    "--calibration", type=FILE, metavar="DATA.npz", help="Calibration samples: an array for each input, by name."
)
@click.option("--random", "seed", type=int, metavar="SEED", help="Generate random samples instead of DATA.")
@shape_option
@click.option("--per-channel/--no-per-channel", default=True, help="One scale per filter (default), or per tensor.")
@click.option("--symmetric", is_flag=True, help="Zero points of 0 for activations, too.")
@click.option("--only", metavar="KINDS", help="Quantise only nodes of these types, such as Conv,Gemm,MatMul.")
def quantize(
    model: Path,
    output: Path,
    calibration: Path | None,
    seed: int | None,
    shapes: tuple[str, ...],
    per_channel: bool,
    symmetric: bool,
    only: str | None,
) -> None:
    """Quantise a float ONNX model to 8 bits.

    onnxruntime's quantiser puts QuantizeLinear and DequantizeLinear around the layers. Their value ranges are measured
    on the samples of DATA.npz: an array for each input, by name, in its shape, or with a leading dimension for several
    samples. Without DATA the samples are random numbers: the model is as fast, but less accurate.

    LSTM, GRU and RNN of fixed length are unrolled first, so that their matmuls are quantised.
    """
    if calibration is not None and seed is not None:
        raise ModelError(f"--random must be left out with --calibration, not {seed}. Choose one.")
    check_writable(output)
    kinds = None if only is None else [kind.strip() for kind in only.split(",")]
    read = read_model(model, shapes_of(shapes))
    if calibration is not None:
        samples = samples_of(arrays_of(calibration, "calibration data"), inputs_of(read))
        source = calibration.name
    else:
        check_seed(seed or 0)
        samples, source = random_samples(read, seed or 0), f"random numbers of seed {seed or 0}"
    made = quantised(read, samples, per_channel=per_channel, symmetric=symmetric, only=kinds)
    with atomic_write(output) as file:
        file.write(made.proto.SerializeToString())
    if calibration is None:
        warn_of_random(model, seed or 0)
    print_quantiser_notes(made)
    print_quantised(output, made, len(samples), source)


def random_samples(model: Model, seed: int) -> list[Sample]:
    """Random calibration samples; the first equals the random inputs of `lathe run`."""
    return [random_arrays(inputs_of(model), seed + number) for number in range(RANDOM_SAMPLES)]


def warn(text: str) -> None:
    """Print a warning on standard error."""
    notes().print(f"WARNING: {text}", style="bold", soft_wrap=True, markup=False)


def warn_of_random(path: Path, seed: int) -> None:
    """Warn that the model was calibrated with random samples."""
    warn(
        f"{path.name} is quantised with {RANDOM_SAMPLES} samples of random numbers with seed {seed}, because none are "
        "given. Real data may have other ranges: give samples with --calibration of `lathe quantize`."
    )


def print_quantiser_notes(made: Quantised) -> None:
    """Note on standard error which preparations were skipped or failed."""
    if made.unprepared:
        notes().print(f"onnxruntime's quant_pre_process is skipped: {made.unprepared}.", soft_wrap=True, markup=False)
    for name, reason in made.not_unrolled.items():
        notes().print(f"{name} is not unrolled, and remains in float: {reason}.", soft_wrap=True, markup=False)


def print_quantised(output: Path, made: Quantised, samples: int, source: str) -> None:
    """Print the node types of the quantised model."""
    nodes = made.proto.graph.node
    of_bytes = {name for node in nodes if node.op_type == "DequantizeLinear" for name in node.output}
    kinds = Counter(node.op_type for node in nodes if node.op_type not in ("QuantizeLinear", "DequantizeLinear"))
    inside = Counter(
        node.op_type for node in nodes if node.op_type in made.kinds and any(name in of_bytes for name in node.input)
    )
    rows = [
        ("samples", f"{samples}  ({source})"),
        ("quantised", _counted(inside)),
        ("other nodes", _counted(kinds - inside)),
    ]
    if made.unrolled:
        rows.append(("unrolled", ", ".join(made.unrolled)))
    console().print(table(str(output), ["", ""], rows, left=2))


def _counted(kinds: Counter[str]) -> str:
    return ", ".join(f"{grouped(count)} {kind}" for kind, count in sorted(kinds.items())) or "none"
