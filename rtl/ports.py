"""The ports of the accelerator: the AXI4 manager, the AXI4-Lite subordinate, and the trace."""

from collections.abc import Sequence

from amaranth import Module, Mux, Signal

from lathe.isa.table import Opcode
from lathe.rtl.arbiter import ReadArbiter
from lathe.rtl.compute import Compute
from lathe.rtl.control import Control
from lathe.rtl.derived_widths import Geometry, log2
from lathe.rtl.fetch import Fetch
from lathe.rtl.load import Load
from lathe.rtl.registers import ADDRESS_BITS
from lathe.rtl.stall import UNIT_NAMES, Activity
from lathe.rtl.store import Store
from lathe.rtl.trace_opcodes import FIRST, OPERATIONS
from lathe.rtl.write_channel import WriteChannel

BUS_ADDRESS_BITS = 64
ID_BITS = 2
WRITE_ID = 3  # the ids below are fetch, load and compute
INCREMENTING = 1
# Modifiable and bufferable, non-secure, unprivileged data: what a DRAM behind an interconnect expects.
CACHE = 0b0011
PROTECTION = 0b010


class BusPorts:
    """AXI4 manager, with the signal names by which tools recognise AXI buses."""

    def __init__(self, geometry: Geometry) -> None:
        self.geometry = geometry
        bits = geometry.bus_bits
        widths = {
            "ar": {"valid": 1, "ready": 1, "addr": BUS_ADDRESS_BITS, "len": 8, "size": 3, "burst": 2, "id": ID_BITS}
            | {"cache": 4, "prot": 3},
            "r": {"valid": 1, "ready": 1, "data": bits, "resp": 2, "last": 1, "id": ID_BITS},
            "aw": {"valid": 1, "ready": 1, "addr": BUS_ADDRESS_BITS, "len": 8, "size": 3, "burst": 2, "id": ID_BITS}
            | {"cache": 4, "prot": 3},
            "w": {"valid": 1, "ready": 1, "data": bits, "strb": bits // 8, "last": 1},
            "b": {"valid": 1, "ready": 1, "resp": 2, "id": ID_BITS},
        }
        self.channels = {
            channel: {name: Signal(width, name=f"m_axi_{channel}{name}") for name, width in fields.items()}
            for channel, fields in widths.items()
        }

    @property
    def signals(self) -> list[Signal]:
        """All signals of the port."""
        return [signal for channel in self.channels.values() for signal in channel.values()]

    def connect(self, m: Module, reads: ReadArbiter, writes: WriteChannel) -> None:
        """Connect the two sides of the memory port."""
        ar, r, aw, w, b = (self.channels[name] for name in ("ar", "r", "aw", "w", "b"))
        for channel in (ar, aw):
            m.d.comb += [
                channel["size"].eq(log2(self.geometry.bus_bytes)),
                channel["burst"].eq(INCREMENTING),
                channel["cache"].eq(CACHE),
                channel["prot"].eq(PROTECTION),
            ]
        m.d.comb += [
            ar["valid"].eq(reads.ar_valid),
            reads.ar_ready.eq(ar["ready"]),
            ar["addr"].eq(reads.ar_addr),
            ar["len"].eq(reads.ar_len),
            ar["id"].eq(reads.ar_id),
            reads.r_valid.eq(r["valid"]),
            r["ready"].eq(1),  # a burst is requested only when there is space for it
            reads.r_data.eq(r["data"]),
            reads.r_resp.eq(r["resp"]),
            reads.r_last.eq(r["last"]),
            reads.r_id.eq(r["id"]),
            aw["valid"].eq(writes.aw_valid),
            writes.aw_ready.eq(aw["ready"]),
            aw["addr"].eq(writes.aw_addr),
            aw["len"].eq(writes.aw_len),
            aw["id"].eq(WRITE_ID),
            w["valid"].eq(writes.bus_w_valid),
            writes.bus_w_ready.eq(w["ready"]),
            w["data"].eq(writes.bus_w_data),
            w["strb"].eq(writes.bus_w_strb),
            w["last"].eq(writes.bus_w_last),
            writes.b_valid.eq(b["valid"]),
            b["ready"].eq(1),
            writes.b_resp.eq(b["resp"]),
        ]


class HostPorts:
    """AXI4-Lite subordinate for the host CPU, and an interrupt that is high once a launch is done or has failed."""

    def __init__(self) -> None:
        widths = {
            "aw": {"valid": 1, "ready": 1, "addr": ADDRESS_BITS, "prot": 3},
            "w": {"valid": 1, "ready": 1, "data": 32, "strb": 4},
            "b": {"valid": 1, "ready": 1, "resp": 2},
            "ar": {"valid": 1, "ready": 1, "addr": ADDRESS_BITS, "prot": 3},
            "r": {"valid": 1, "ready": 1, "data": 32, "resp": 2},
        }
        self.channels = {
            channel: {name: Signal(width, name=f"s_axi_{channel}{name}") for name, width in fields.items()}
            for channel, fields in widths.items()
        }
        self.interrupt = Signal(name="interrupt")

    @property
    def signals(self) -> list[Signal]:
        """All signals of the port."""
        return [*(signal for channel in self.channels.values() for signal in channel.values()), self.interrupt]

    def connect(self, m: Module, control: Control) -> None:
        """Connect the control registers."""
        aw, w, b, ar, r = (self.channels[name] for name in ("aw", "w", "b", "ar", "r"))
        m.d.comb += [
            control.aw_valid.eq(aw["valid"]),
            aw["ready"].eq(control.aw_ready),
            control.aw_addr.eq(aw["addr"]),
            control.w_valid.eq(w["valid"]),
            w["ready"].eq(control.w_ready),
            control.w_data.eq(w["data"]),
            control.w_strb.eq(w["strb"]),
            b["valid"].eq(control.b_valid),
            control.b_ready.eq(b["ready"]),
            control.ar_valid.eq(ar["valid"]),
            ar["ready"].eq(control.ar_ready),
            control.ar_addr.eq(ar["addr"]),
            r["valid"].eq(control.r_valid),
            control.r_ready.eq(r["ready"]),
            r["data"].eq(control.r_data),
            self.interrupt.eq(~control.busy & (control.done | control.fault_code.any())),
        ]


class TracePorts:
    """Trace port: what happens in each cycle.

    `trace_start`: cycle 0 of a launch; `trace_done`: its end; `trace_fault`: the code. For each unit, the signals of
    its activity. `trace_unit`: the unit to which fetch dispatches. `trace_operation`: the index in `OPERATIONS` of the
    micro-op that is executed, 0 for none. `trace_*_bytes`: bytes moved, `trace_*_memory`: of which memory type.
    """

    def __init__(self, geometry: Geometry) -> None:
        self.geometry = geometry
        sizes = range(geometry.bus_bytes + 1)
        self.start, self.done = Signal(name="trace_start"), Signal(name="trace_done")
        self.fault = Signal(8, name="trace_fault")
        self.fields = ("start", "end", "busy", "stall", "cause", "wait", "retire")
        self.units = {
            (unit, field): Signal(4 if field == "cause" else 1, name=f"trace_{unit}_{field}")
            for unit in UNIT_NAMES
            for field in self.fields
        }
        self.unit = Signal(2, name="trace_unit")
        self.operation = Signal(range(len(OPERATIONS)), name="trace_operation")
        self.load_bytes = Signal(sizes, name="trace_load_bytes")
        self.load_memory = Signal(3, name="trace_load_memory")
        self.compute_bytes = Signal(sizes, name="trace_compute_bytes")
        self.compute_memory = Signal(3, name="trace_compute_memory")
        self.store_bytes = Signal(sizes, name="trace_store_bytes")

    @property
    def signals(self) -> list[Signal]:
        """All signals of the port."""
        moved = [self.load_bytes, self.load_memory, self.compute_bytes, self.compute_memory, self.store_bytes]
        return [self.start, self.done, self.fault, *self.units.values(), self.unit, self.operation, *moved]

    def connect(
        self,
        m: Module,
        control: Control,
        fetch: Fetch,
        units: tuple[Load, Compute, Store],
        activities: Sequence[Activity],
    ) -> None:
        """Connect the units, and the activities in the order of ``UNIT_NAMES``."""
        load, compute, store = units
        m.d.comb += [
            self.start.eq(control.start),
            self.done.eq(control.done),
            self.fault.eq(Mux(control.busy, 0, control.fault_code)),
            self.unit.eq(fetch.unit),
        ]
        for unit, activity in zip(UNIT_NAMES, activities, strict=True):
            m.d.comb += [self.units[unit, field].eq(getattr(activity, field)) for field in self.fields]
        pipeline = compute.pipeline
        step = pipeline.committed
        which = {Opcode.GEMM: step.of.gemm.reset, Opcode.ALU: step.of.alu.alu_opcode}
        for opcode in pipeline.opcodes:
            with m.If(pipeline.commit & step[opcode.name.lower()]):
                m.d.comb += self.operation.eq(FIRST[opcode] + which.get(opcode, 0))
        for write, size, memory in (
            (load.write, self.load_bytes, self.load_memory),
            (compute.write, self.compute_bytes, self.compute_memory),
        ):
            m.d.comb += [size.eq(Mux(write.en & ~write.pad, write.size, 0)), memory.eq(write.memory)]
        m.d.comb += self.store_bytes.eq(Mux(store.out_en, store.out_size, 0))
