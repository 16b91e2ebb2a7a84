"""Assignment of stages and instructions to layers, by stage names."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def layers_by_stage(stages: Sequence[str], layers: Sequence[str]) -> dict[str, str]:
    """The layer of each stage: names of a layer's stages begin with its name; other stages belong to the last layer."""
    found: dict[str, str] = {}
    for stage in stages:
        owner = _owner(stage, layers)
        found[stage] = layers[-1] if owner is None else owner
    return found


def layers_of_stages(stages: Sequence[str], labels: Sequence[str], layers: Sequence[str]) -> NDArray[np.int32]:
    """The number of each instruction's layer, by its stage, or else by its label."""
    number = {layer: n for n, layer in enumerate(layers)}
    of_label = layers_by_stage(list(dict.fromkeys(labels)), layers)
    of_stage = {stage: _owner(stage, layers) for stage in dict.fromkeys(stages)}
    return np.array(
        [number[of_stage[stage] or of_label[label]] for stage, label in zip(stages, labels, strict=True)], np.int32
    )


def _owner(stage: str, layers: Sequence[str]) -> str | None:
    candidates = [each for each in layers if stage == each or stage.startswith(f"{each}.")]
    return max(candidates, key=len, default=None)
