"""The machines that programs are compiled for: the shipped ones, and unusual ones of VTA's parameter space."""

from lathe.configs import HardwareConfig, load_config, shipped_configs

_VTA = load_config("vta")

SHIPPED: dict[str, HardwareConfig] = {name: load_config(name) for name in sorted(shipped_configs())}

ODD: dict[str, HardwareConfig] = {
    "tall": _VTA.with_(name="tall", block_in=8, block_out=32, wgt_buffer_bytes=65536),
    "flat": _VTA.with_(name="flat", block_in=32, block_out=8, acc_buffer_bytes=32768),
    "pair": _VTA.with_(name="pair", batch=2, block_in=8, block_out=16, **{"memory.bus_bits": 32}),
    "narrow": _VTA.with_(name="narrow", block_in=4, block_out=2, acc_buffer_bytes=4096, inp_buffer_bytes=2048,
                         wgt_buffer_bytes=2048, uop_buffer_bytes=2048, **{"memory.bus_bits": 8}),
    "small": _VTA.with_(name="small", block_in=4, block_out=4, batch=2, acc_buffer_bytes=2048, inp_buffer_bytes=512,
                        wgt_buffer_bytes=1024, uop_buffer_bytes=256),
}  # fmt: skip

ALL = {**SHIPPED, **ODD}
