"""The machine description: an immutable configuration, its validation, and the shipped YAML files."""

from lathe.configs.config_loader import config_to_yaml, load_config, shipped_configs
from lathe.configs.errors import ConfigError, LatheError, RefusalKind
from lathe.configs.hardware_config import HardwareConfig
from lathe.configs.memory import MemoryConfig, TimingConfig

__all__ = [
    "ConfigError",
    "HardwareConfig",
    "LatheError",
    "MemoryConfig",
    "RefusalKind",
    "TimingConfig",
    "config_to_yaml",
    "load_config",
    "shipped_configs",
]
