"""Compiled networks kept in the cache of schedules, by the content of model, machine and compiler."""

import hashlib
import json
from dataclasses import asdict

from lathe.autotune.schedule_cache import ROOMS, ScheduleCache, sources_of
from lathe.configs import HardwareConfig
from lathe.frontend.onnx.reading import Model
from lathe.networks.program import NetworkProgram

KIND = "network "
MOST_BYTES = 512 << 20


def network_key(model: Model, config: HardwareConfig) -> str:
    """What a compiled network depends on, as one number."""
    machine = json.dumps(asdict(config), sort_keys=True, default=str)
    content = hashlib.sha256(model.proto.SerializeToString(deterministic=True))
    content.update("\0".join(["", model.name, machine, sources_of((*ROOMS, "networks"))]).encode())
    return KIND + content.hexdigest()


def read_kept(cache: ScheduleCache, key: str) -> NetworkProgram | None:
    """The network that is kept under a key; None if none is, or none that is whole."""
    return cache.read_file(key, NetworkProgram.load)


def keep(cache: ScheduleCache, key: str, program: NetworkProgram) -> None:
    """Keep a network; the oldest are forgotten where all of them take more than ``MOST_BYTES``."""
    cache.write_file(key, program.save)
    cache.forget_oldest(KIND, MOST_BYTES)
