"""Machines of any batch and blocks."""

from lathe.configs import HardwareConfig, load_config


def machine(batch: int, block_in: int, block_out: int) -> HardwareConfig:
    """A machine with this batch and these blocks, and some hundred vectors in each scratchpad."""
    return load_config("tiny").with_(
        name=f"{batch}x{block_in}x{block_out}",
        batch=batch,
        block_in=block_in,
        block_out=block_out,
        inp_buffer_bytes=batch * block_in * 512,
        wgt_buffer_bytes=block_in * block_out * 256,
        acc_buffer_bytes=batch * block_out * 1024,
    )
