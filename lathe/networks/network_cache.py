"""Cache of compiled networks, in the schedule cache, by the content of model, machine and compiler."""

import hashlib
import json
from dataclasses import asdict

from lathe.autotune.schedule_cache import HASHED_PACKAGES, ScheduleCache, sources_of
from lathe.configs import HardwareConfig
from lathe.frontend.onnx.reading import Model
from lathe.networks.program import NetworkProgram

KIND = "network "
MOST_BYTES = 512 << 20


def network_key(model: Model, config: HardwareConfig) -> str:
    """The cache key of a compiled network: a hash of all that it depends on."""
    machine = json.dumps(asdict(config), sort_keys=True, default=str)
    content = hashlib.sha256(model.proto.SerializeToString(deterministic=True))
    content.update("\0".join(["", model.name, machine, sources_of((*HASHED_PACKAGES, "networks"))]).encode())
    return KIND + content.hexdigest()


def read_cached(cache: ScheduleCache, key: str) -> NetworkProgram | None:
    """The cached network of a key; None if there is none, or it is damaged."""
    return cache.read_file(key, NetworkProgram.load)


def write_cached(cache: ScheduleCache, key: str, program: NetworkProgram) -> None:
    """Cache a network; evicts the oldest if all take more than ``MOST_BYTES``."""
    cache.write_file(key, program.save)
    cache.forget_oldest(KIND, MOST_BYTES)
