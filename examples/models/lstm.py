"""Two layers of LSTM (Hochreiter and Schmidhuber, 1997) and a classifier for each time step, with seeded weights.

python examples/models/lstm.py [-o lstm.onnx] [--steps 32]
"""

import argparse

import numpy as np
import onnx
from float_graph import FloatGraph

FEATURES, HIDDEN, CLASSES = 40, 128, 30
"""Sizes as in small speech recognisers: spectral bands, states, symbols."""
GATES = 4


class _Recurrent(FloatGraph):
    def lstm(self, data: str, width: int, hidden: int) -> str:
        """A forward LSTM node with zero initial states: (steps, 1, width) to (steps, 1, hidden)."""
        # Scaled to reach the non-linear range of gates, and to preserve states for some time steps.
        inner = self.random.standard_normal((1, GATES * hidden, width)) * 1.5 / np.sqrt(width)
        again = self.random.standard_normal((1, GATES * hidden, hidden)) * 1.5 / np.sqrt(hidden)
        bias = self.random.standard_normal((1, 2 * GATES * hidden)) * 0.1
        held = [self.constant(each.astype(np.float32)) for each in (inner, again, bias)]
        made = self.node("LSTM", data, *held, hidden_size=hidden)
        return self.node("Squeeze", made, self.constant(np.array([1], np.int64)))


def lstm(steps: int = 32, hidden: int = HIDDEN, classes: int = CLASSES, seed: int = 0) -> onnx.ModelProto:
    """Input "frames" (steps, 1, 40), output "symbols" (steps, 1, classes)."""
    graph = _Recurrent("lstm", seed)
    first = graph.lstm("frames", FEATURES, hidden)
    second = graph.lstm(first, hidden, hidden)
    weights = (graph.random.standard_normal((hidden, classes)) * 3 / np.sqrt(hidden)).astype(np.float32)
    bias = (graph.random.standard_normal(classes) * 0.1).astype(np.float32)
    graph.node("Add", graph.node("MatMul", second, graph.constant(weights)), graph.constant(bias))
    graph.name_last("symbols")
    return graph.model({"frames": (steps, 1, FEATURES)}, {"symbols": (steps, 1, classes)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", default="lstm.onnx")
    parser.add_argument("--steps", type=int, default=32)
    given = parser.parse_args()
    onnx.save(lstm(given.steps), given.output)


if __name__ == "__main__":
    main()
