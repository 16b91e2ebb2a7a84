"""The hardware description: one frozen configuration, its validation and the shipped YAML files."""

from lathe.configs.errors import ConfigError, LatheError, RefusalKind
from lathe.configs.hardware import HardwareConfig
from lathe.configs.loading import config_to_yaml, load_config, shipped_configs
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
