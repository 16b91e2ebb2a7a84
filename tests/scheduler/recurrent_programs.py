"""Recurrent programs shared by tests, with reference results from plain integer loops."""

import numpy as np

from lathe.frontend import compute, define, max, min, placeholder, reduce_axis, select, state, sum


class TwoLayers:
    """An integer LSTM of two layers over time: gates by matmul, hard sigmoids by shift and clip.

    ``before`` and ``below`` are operands of the two matmuls: this layer's h at the previous time step, and at the same
    step the h of the layer below (or the input).
    """

    def __init__(self, steps: int = 6, layers: int = 2, size: int = 16) -> None:
        T, L, N = steps, layers, size
        self.shape = T, L, N
        self.X = placeholder((T, N), "int8", "X")
        self.W = placeholder((L, 4, N, N), "int8", "W")
        self.U = placeholder((L, 4, N, N), "int8", "U")
        self.h = h = state((T, L, N), "int8", "h", init=0)
        self.c = c = state((T, L, N), "int8", "c", init=0)
        k, m = reduce_axis(N, "k"), reduce_axis(N, "m")
        self.before = before = compute((T, L, N), lambda t, l, n: h[t - 1, l, n], "before")
        self.below = below = compute((T, L, N), lambda t, l, n: select(l > 0, h[t, l - 1, n], self.X[t, n]), "below")
        self.of_before = of_before = compute(
            (T, L, 4, N),
            lambda t, l, q, n: sum(self.W[l, q, n, k].astype("int32") * before[t, l, k].astype("int32"), axis=k),
            "of_before",
        )
        self.of_below = of_below = compute(
            (T, L, 4, N),
            lambda t, l, q, n: sum(self.U[l, q, n, m].astype("int32") * below[t, l, m].astype("int32"), axis=m),
            "of_below",
        )
        self.gates = gates = compute(
            (T, L, 4, N),
            lambda t, l, q, n: min(max((of_before[t, l, q, n] + of_below[t, l, q, n] >> 8) + 64, 0), 127),
            "gates",
        )
        define(
            c,
            lambda t, l, n: min(
                max(
                    (gates[t, l, 0, n] * c[t - 1, l, n].astype("int32") >> 7)
                    + (gates[t, l, 1, n] * (gates[t, l, 2, n] - 64) >> 6),
                    -128,
                ),
                127,
            ).astype("int8"),
        )
        define(h, lambda t, l, n: (gates[t, l, 3, n] * c[t, l, n].astype("int32") >> 7).astype("int8"))
        self.inputs = self.X, self.W, self.U

    def data(self, seed: int = 0) -> dict[str, np.ndarray]:
        generator = np.random.default_rng(seed)
        return {each.name: generator.integers(-128, 128, each.shape, np.int8) for each in self.inputs}

    def meaning(self, data: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Reference values of h and c."""
        X, W, U = (data[each.name].astype(np.int64) for each in self.inputs)
        h, c = np.zeros(self.shape, np.int64), np.zeros(self.shape, np.int64)
        steps, layers, _ = self.shape
        for t in range(steps):
            for l in range(layers):
                below = h[t, l - 1] if l else X[t]
                before, cell = (h[t - 1, l], c[t - 1, l]) if t else (0 * below, 0 * below)
                gates = np.clip((W[l] @ before + U[l] @ below >> 8) + 64, 0, 127)
                c[t, l] = np.clip((gates[0] * cell >> 7) + (gates[1] * (gates[2] - 64) >> 6), -128, 127)
                h[t, l] = gates[3] * c[t, l] >> 7
        return {"h": h.astype(np.int8), "c": c.astype(np.int8)}
