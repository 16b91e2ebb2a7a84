"""One element of a memory: the values that the machine moves and computes at once."""

from dataclasses import dataclass

from lathe.configs import HardwareConfig


@dataclass(frozen=True)
class Element:
    """The shape of one element of a memory: values in a row of rows."""

    rows: int
    cols: int
    spread_rows: bool = True  # whether the host repeats a value along rows that no dimension fills, or puts zeros there
    spread_cols: bool = True

    @property
    def lanes(self) -> int:
        return self.rows * self.cols


def element_of(config: HardwareConfig, scope: str) -> Element:
    """The shape of an element of scratchpad ``inp``, ``wgt`` or ``acc``.

    Columns of inp and wgt are summed over, so those without values are zeros; all others repeat the value, so that a
    tensor with no dimension along lanes is the same in all of them, however it was made.
    """
    return {
        "inp": Element(config.batch, config.block_in, spread_cols=False),
        "wgt": Element(config.block_out, config.block_in, spread_cols=False),
        "acc": Element(config.batch, config.block_out),
    }[scope]
