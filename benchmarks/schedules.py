"""Speed of schedule primitives and queries, on a 56×56×64→64 convolution (3×3, padding 1) on `vta`.

    python benchmarks/schedules.py [--json]

Every primitive is measured where it is slowest: on the convolution's schedule of 12 loops, complete except for that
primitive. Queries are measured on the complete schedule.
"""

import gc
import sys
from collections.abc import Callable
from inspect import unwrap
from pathlib import Path
from statistics import median
from time import perf_counter

sys.path.insert(0, str(Path(__file__).parent))

from end_to_end import by_hand, convolution
from figures import Figure, at_most, one_core, report, seconds

import lathe as lt
from lathe.scheduler.schedule_trace import COMMAND

RUNS = 5


class TwelveLoops:
    """The convolution with a schedule that uses many primitives.

    The output is laid out in blocks of channels; the block loop is parallel, with two virtual threads, and the inner
    channel loop is vectorised. Half of a tile's input rows are reused by the next tile; weights are loaded once per
    block of channels into double buffers; the convolution has twelve loops.
    """

    def __init__(self) -> None:
        self.output, self.tensors = convolution()
        self.s = lt.create_schedule(self.output)
        self.product = self.output.computation.reads[0].tensor
        self.padded = self.product.computation.reads[0].tensor

    def complete(self) -> lt.Schedule:
        s, output, product = self.s, self.s[self.output], self.s[self.product]
        n, co, y, x, ci = output.transform_layout(lambda n, y, x, c: [n, c // 16, y, x, c % 16])
        self.accumulated = s.cache_write(self.output, "acc")
        self.kernel = s.cache_read(self.tensors[1], "wgt", [self.product])
        self.yo, yi = output.split(y, factor=2)
        output.reorder(n, co, self.yo, yi, x, ci)
        for stage in (s[self.accumulated], product):
            stage.set_scope("acc")
            stage.compute_at(output, self.yo)
        n_, y_, x_, c_ = product.axis
        ry, rx, rc = product.reduce_axis
        ya, yb = product.split(y_, factor=1)
        xa, xb = product.split(x_, factor=28)
        ca, cb = product.split(c_, factor=16)
        ka, kb = product.split(rc, factor=16)
        kaa, kab = product.split(ka, factor=2)
        product.reorder(kaa, kab, n_, ya, xa, ca, ry, rx, yb, xb, cb, kb)
        product.unroll(ry)
        s[self.padded].set_scope("inp")
        s[self.padded].reuse_at(output, self.yo)
        s[self.kernel].compute_at(output, co)
        s[self.kernel].double_buffer(2)
        output.parallelize(co)
        output.vectorize(ci, 16)
        output.vthread(co, 2)
        assert len(product.leaf_axis) == 12
        return s

    def unscheduled(self) -> lt.Schedule:
        return self.s


def more_primitives(c: TwelveLoops, s: lt.Schedule) -> list[Callable[[], object]]:
    """One primitive each on the complete schedule."""
    product, output = s[c.product], s[c.output]
    return [
        lambda: product.split("xi", factor=5),
        lambda: product.tile("xi", "oi", 7, 4),
        lambda: product.fuse("yi", "xi"),
        lambda: product.reorder("rx", "ry"),
        lambda: product.interchange("yi", "xi"),
        lambda: product.reverse("xi"),
        lambda: product.shift("xi", 3),
        lambda: product.skew("yi", "xi"),
        lambda: product.separate("xi", 5),
        lambda: product.unroll("rx"),
        lambda: product.emit_insn("yi", "gemm"),
        lambda: output.distribute("i0"),
        lambda: s[c.padded].compute_at(product, "rcoo"),
        lambda: s[c.padded].compute_at(product, "rcoo", "exact"),
        lambda: s[c.kernel].compute_at(output, "yo"),
        lambda: s[c.padded].compute_root(),
        lambda: s.cache_read(c.tensors[0], "inp", [c.padded]),
        lambda: s.transform_layout(c.tensors[0], lambda n, y, x, c: [n, c // 16, y, x, c % 16]),
        lambda: s[c.padded].set_scope("inp"),
        lambda: s.barrier_at(product, "rcoo"),
        lambda: product.send("load", "rcoo"),
        lambda: product.receive("load", "rcoo"),
        lambda: s.copy_at(c.tensors[0], c.output, "yo", "inp"),
        lambda: s.host_to_device(c.tensors[0]),
        lambda: s.device_to_host(c.output),
        lambda: s.tile_for(scratchpads=2),
    ]


def orders(c: TwelveLoops, s: lt.Schedule) -> list[Callable[[], object]]:
    """Primitives on the order of whole stages, one each on the unscheduled convolution."""
    padded, product, output = (s[tensor] for tensor in (c.padded, c.product, c.output))
    tiled = "{ [n, y, x, o, a, b, k] -> [n, floor(y/4), floor(x/28), floor(o/16), a, b, k, y % 4, x % 28, o % 16] }"
    return [
        lambda: product.set_schedule(tiled),
        lambda: padded.inline(),
        lambda: output.after(product, "i2"),
        lambda: product.before(output, "i2"),
        lambda: product.then(output, "i2"),
        lambda: product.between(padded, "n", output, "i0"),
        lambda: padded.compute_at(product, "y", "missing"),
        lambda: s.merge_adjacent(c.product, c.output),
        s.inline_elementwise,
        lambda: padded.reorder_to_buffer(c.tensors[0]),
    ]


def stores(c: TwelveLoops, s: lt.Schedule) -> list[Callable[[], object]]:
    """Primitives on buffers, on the convolution with two stages fused in a loop and a buffer of two rows."""
    product, output = s[c.product], s[c.output]
    output.after(product, "i1")
    rows = s.buffer("rows")
    product.store_in(rows, lambda _, y, x, o: [y % 2, x, o])
    return [lambda: s.allocate_at(rows, c.output, "i0")]


def paddings(c: TwelveLoops, s: lt.Schedule) -> list[Callable[[], object]]:
    """Primitives on padding, one each on the convolution over 64 channels laid out in two blocks of 48."""
    for tensor in (c.tensors[1], c.padded):
        s.transform_layout(tensor, lambda *i: [*i[:-1], i[-1] // 48, i[-1] % 48], pad_value=0)
    product = s[c.product]
    product.split("rc", factor=48)

    def and_back(command: str) -> object:
        product.overcompute("rci")
        return getattr(product, command)("rci")

    return [s.remove_dead_stores, lambda: and_back("branch"), lambda: and_back("reduce_extent")]


def queries(c: TwelveLoops, s: lt.Schedule) -> dict[str, Callable[[], object]]:
    return {
        "dependences": s.dependences,
        "is_parallel": lambda: s.is_parallel(c.yo, c.output),
        "is_legal": lambda: s.is_legal("compute_root", c.padded),
        "count": s.count,
    }


class Stopwatch:
    """Wraps every schedule primitive to measure it; ``slowest``: the maximum time per primitive in seconds."""

    def __init__(self) -> None:
        self.slowest: dict[str, float] = {}

    def __enter__(self) -> "Stopwatch":
        self.before = [
            (owner, name, value) for owner in (lt.Stage, lt.Schedule) for name, value in primitives_of(owner)
        ]
        for owner, name, value in self.before:
            setattr(owner, name, self._timed(name, value))
        return self

    def __exit__(self, *_: object) -> None:
        for owner, name, value in self.before:
            setattr(owner, name, value)

    def _timed(self, name: str, command: Callable[..., object]) -> Callable[..., object]:
        def run(*arguments: object, **options: object) -> object:
            start = perf_counter()
            try:
                return command(*arguments, **options)
            finally:
                self.slowest[name] = max(self.slowest.get(name, 0.0), perf_counter() - start)

        return run


def primitives_of(owner: type) -> list[tuple[str, Callable[..., object]]]:
    """The primitives among the methods of a class, by name."""
    return [(name, value) for name, value in vars(owner).items() if getattr(value, COMMAND, False)]


CASES = (
    (more_primitives, TwelveLoops.complete),
    (orders, TwelveLoops.unscheduled),
    (stores, TwelveLoops.unscheduled),
    (paddings, TwelveLoops.unscheduled),
)


def slowest_of_each_primitive() -> dict[str, float]:
    """Seconds of each primitive, where it is slowest; the median of a few runs.

    Garbage is collected between runs only, so that a collection is not attributed to the primitive that it interrupts.
    """
    runs: list[dict[str, float]] = []
    for _ in range(RUNS + 1):
        gc.collect()
        gc.disable()
        with Stopwatch() as watch:
            TwelveLoops().complete()
            for more, start in CASES:
                for position in range(len(more(c := TwelveLoops(), start(c)))):
                    c = TwelveLoops()
                    more(c, start(c))[position]()
        gc.enable()
        runs.append(watch.slowest)
    return {name: median(run[name] for run in runs[1:]) for name in sorted(runs[0])}


def main() -> None:
    one_core()
    config = lt.load_config("vta")
    c = TwelveLoops()
    full = seconds(lambda: lt.build((t := TwelveLoops()).complete(), t.tensors, config), RUNS)
    ordered = seconds(lambda: TwelveLoops().complete(), RUNS)
    plain = seconds(lambda: lt.build(by_hand(c.output), c.tensors, config), RUNS)
    figures = [
        at_most("twelve loops, to Program", full, "s", 2),
        Figure("twelve loops, commands only", round(ordered, 3), "s"),
        at_most("plain tiled, to Program", plain, "s", 0.5),
    ]
    measured = slowest_of_each_primitive()
    figures += [at_most(f"command {name}", value * 1e3, "ms", 100) for name, value in measured.items()]
    every = [(name, unwrap(each)) for owner in (lt.Stage, lt.Schedule) for name, each in primitives_of(owner)]
    missing = {each for _, each in every} - {each for name, each in every if name in measured}  # some have aliases
    figures.append(at_most("commands not measured", len(missing), "commands", 0))
    s = c.complete()
    figures += [at_most(f"question {n}", seconds(q, RUNS) * 1e3, "ms", 100) for n, q in queries(c, s).items()]
    report(figures, __doc__ or "")


if __name__ == "__main__":
    main()
