"""ONNX's node tests (`onnx.backend.test`) in Lathe on `lathe16`: which pass, and what ran on the NPU.

Each is also run in onnxruntime without graph optimisations, and in ONNX's reference evaluator. The models have weights
and scales as inputs, which Lathe cannot compile to NPU layers; so tests of quantised operators run a second time, with
all inputs but the first as constants. WORDS select tests by substrings of their names.

    python benchmarks/onnx_suite.py [WORDS] [--json] [--failed]
"""

import argparse
import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import onnx
import onnxruntime
from figures import Figure, show
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner
from onnx.reference import ReferenceEvaluator

from lathe.networks import backend

QUANTISED = ("quantize", "qlinear", "convinteger", "matmulinteger")
"""Substrings of the names of tests of quantised operators."""
DATA = tuple[list[Any], list[Any]]


@dataclass(frozen=True)
class Verdict:
    """The results of a test: the failure in each implementation ("" if it passes), and the layers on the NPU.

    ``constant`` and ``constant_on_npu``: the same for Lathe if all inputs but the first are constants of the model, as
    weights and scales are in networks; for tests of quantised operators only.
    """

    name: str
    lathe: str
    onnxruntime: str
    evaluator: str
    on_npu: tuple[str, ...]
    constant: str = ""
    constant_on_npu: tuple[str, ...] = ()

    @property
    def is_quantised(self) -> bool:
        return any(word in self.name for word in QUANTISED)


def cases(words: Sequence[str] = ()) -> Iterator[Any]:
    """The node tests whose names contain one of the words."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the generators of tests divide by zero on purpose
        found = load_model_tests(kind="node")
    for case in found:
        if not words or any(word in case.name for word in words):
            yield case


def _values(each: Any) -> Any:
    if isinstance(each, onnx.TensorProto):
        return onnx.numpy_helper.to_array(each)
    if isinstance(each, onnx.SequenceProto):
        return onnx.numpy_helper.to_list(each)
    if isinstance(each, onnx.OptionalProto):
        return onnx.numpy_helper.to_optional(each)
    return np.asarray(each) if isinstance(each, np.generic) else each


def failure(case: Any, run: Callable[[list[Any]], Sequence[Any]]) -> str:
    """The failure of ``run`` on a test's inputs, by the test's tolerance; "" if it passes."""
    try:
        for inputs, expected in case.data_sets:
            made = run([_values(each) for each in inputs])
            Runner.assert_similar_outputs([_values(each) for each in expected], made, case.rtol, case.atol)
    except Exception as error:  # any exception is a failure of the test
        return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return ""


def by_lathe(case: Any, constants: Sequence[str] = ()) -> tuple[str, tuple[str, ...]]:
    """The failure in Lathe, and the names of the layers that ran on the NPU."""
    prepared = backend.prepare(case.model, constants=constants)
    found = failure(case, prepared.run)
    rows = prepared.result.layers if prepared.result is not None else []
    return found, tuple(row.name for row in rows if row.where == "npu")


def by_onnxruntime(case: Any) -> str:
    """The failure in onnxruntime."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    names = [each.name for each in case.model.graph.input]

    def run(inputs: list[Any]) -> Sequence[Any]:
        proto = case.model.SerializeToString()
        session = onnxruntime.InferenceSession(proto, options, providers=["CPUExecutionProvider"])
        return list(session.run(None, dict(zip(names, inputs, strict=False))))

    return failure(case, run)


def by_evaluator(case: Any) -> str:
    """The failure in ONNX's reference evaluator."""
    names = [each.name for each in case.model.graph.input]
    return failure(
        case, lambda inputs: ReferenceEvaluator(case.model).run(None, dict(zip(names, inputs, strict=False)))
    )


def verdict(case: Any) -> Verdict:
    """The results of a test in all three implementations."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found, on_npu = by_lathe(case)
        made = Verdict(case.name, found, by_onnxruntime(case), by_evaluator(case), on_npu)
        if not made.is_quantised:
            return made
        constant, constant_on_npu = by_lathe(case, [each.name for each in case.model.graph.input[1:]])
        return replace(made, constant=constant, constant_on_npu=constant_on_npu)


def figures(found: Sequence[Verdict]) -> list[Figure]:
    """The counts of tests, with targets."""
    quantised = [each for each in found if each.is_quantised]
    missed = [each for each in found if each.lathe and not each.onnxruntime]
    return [
        Figure("tests", len(found), ""),
        Figure("passed by onnxruntime", sum(not each.onnxruntime for each in found), ""),
        Figure("passed by ONNX's evaluator", sum(not each.evaluator for each in found), ""),
        Figure("passed by either", sum(not (each.onnxruntime and each.evaluator) for each in found), ""),
        Figure("passed by Lathe", sum(not each.lathe for each in found), ""),
        Figure("passed by onnxruntime, not by Lathe", len(missed), "", "<= 0", not missed),
        Figure("of quantised operators", len(quantised), ""),
        Figure("of quantised operators, passed by onnxruntime", sum(not each.onnxruntime for each in quantised), ""),
        Figure(
            "of quantised operators, not passed by Lathe", sum(bool(each.lathe) for each in quantised), "", "<= 0",
            not any(each.lathe for each in quantised),
        ),
        Figure("with layers on the NPU", sum(bool(each.on_npu) for each in found), ""),
        Figure(
            "of quantised operators, not passed with constants", sum(bool(each.constant) for each in quantised), "",
            "<= 0", not any(each.constant for each in quantised),
        ),
        Figure(
            "of quantised operators, on the NPU with constants", sum(bool(each.constant_on_npu) for each in quantised),
            "",
        ),
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="substrings of the names of tests")
    parser.add_argument("--json", action="store_true", help="print all results as JSON")
    parser.add_argument("--failed", action="store_true", help="list only tests that fail in Lathe")
    options = parser.parse_args()
    found = [verdict(case) for case in cases(options.words)]
    listed = [each for each in found if each.lathe or not options.failed]
    if options.json:
        print(json.dumps([*map(asdict, figures(found)), *map(asdict, listed)], indent=2))
        return
    width = max((len(each.name) for each in listed), default=0)
    for each in listed:
        words = [
            f"{who} {'fails' if text else 'passes'}"
            for who, text in (("Lathe", each.lathe), ("onnxruntime", each.onnxruntime), ("evaluator", each.evaluator))
        ]
        print(f"{each.name:{width}}  {', '.join(words)}; on the NPU: {', '.join(each.on_npu) or 'nothing'}")
        if each.lathe:
            print(f"{'':{width}}  {each.lathe}")
        if each.constant_on_npu or each.constant:
            outcome = f"{'fails' if each.constant else 'passes'}; on the NPU: {', '.join(each.constant_on_npu)}"
            print(f"{'':{width}}  with constants Lathe {outcome} {each.constant}".rstrip())
    show(figures(found), as_json=False)


if __name__ == "__main__":
    main()
