"""Each kind of layer as a tensor program: zero points folded into biases, weights and factors as constants."""
