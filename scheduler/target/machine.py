"""The check that an argument is a machine."""

from lathe.configs import HardwareConfig
from lathe.frontend.expr.errors import shown
from lathe.scheduler.errors import BuildError


def check_machine(config: object, where: str) -> None:
    """Raises BuildError unless ``config`` is a HardwareConfig; ``where`` names the call."""
    if not isinstance(config, HardwareConfig):
        raise BuildError(
            f"machine of {where} must be a HardwareConfig, not {shown(config)}. Make one with load_config.",
            kind="argument",
        )
