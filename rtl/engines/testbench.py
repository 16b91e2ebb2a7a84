"""Testbench in Python: the host CPU and the memory on the bus, cycle by cycle.

A simulator of the machine drives a `Bench` as a generator, which yields the inputs of each cycle and receives the
outputs of that cycle.
"""

from collections.abc import Generator

from amaranth import ClockDomain, Elaboratable, Module, ResetInserter, Signal

from lathe.configs import HardwareConfig
from lathe.configs.encoding import INSTRUCTION_BYTES
from lathe.rtl.accelerator import Accelerator
from lathe.rtl.engines.axi_checker import Address, Protocol, ReadBeat, Response, WriteBeat
from lathe.rtl.engines.dram import Bytes, Dram
from lathe.rtl.engines.host import REPORT, report, settings
from lathe.rtl.engines.launch import BrokenRunError, Launch, Outcome
from lathe.rtl.engines.recorder import Recorder
from lathe.rtl.ports import WRITE_ID
from lathe.rtl.registers import BY_NAME

# Values of DeviceUnderTest.inputs, and of its outputs: the bus and what the host has read, and the trace port.
Inputs = tuple[int, ...]
Outputs = tuple[tuple[int, ...], tuple[int, ...]]
Steps = Generator[Inputs, Outputs, None]

# See Dram.offer.
Offer = tuple[bool, bool, tuple[int, int, int, int] | None, bool, int | None]

# The reset, and the inputs from the host CPU, when both are idle.
QUIET = (0, 0, 0, 0, 0, 0, 0)
# What an idle memory offers.
NO_OFFER: Offer = (True, True, None, False, None)
# The inputs from the bus of an idle memory.
SILENT = (1, 1, 0, 0, 0, 0, 0, 0, 0, 0, WRITE_ID)


class DeviceUnderTest(Elaboratable):
    """The device under test: the machine with the ports that the testbench drives and observes, in its order."""

    def __init__(self, config: HardwareConfig) -> None:
        self.machine = machine = Accelerator(config)
        self.reset = Signal()
        bus, host = machine.bus.channels, machine.host.channels
        ar, r, aw, w, b = (bus[name] for name in ("ar", "r", "aw", "w", "b"))
        self.inputs: list[Signal] = [
            self.reset,
            *(host["aw"]["valid"], host["aw"]["addr"], host["w"]["valid"], host["w"]["data"]),
            *(host["ar"]["valid"], host["ar"]["addr"]),
            *(ar["ready"], aw["ready"]),
            *(r["valid"], r["id"], r["data"], r["last"], r["resp"]),
            *(w["ready"], b["valid"], b["resp"], b["id"]),
        ]
        shown = [
            *(ar["valid"], ar["addr"], ar["len"], ar["size"], ar["burst"], ar["id"]),
            *(aw["valid"], aw["addr"], aw["len"], aw["size"], aw["burst"], aw["id"]),
            *(w["valid"], w["data"], w["strb"], w["last"]),
            *(r["ready"], b["ready"]),
            host["r"]["data"],
        ]
        self.outputs: tuple[list[Signal], list[Signal]] = (shown, machine.trace.signals)

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        # A reset of the domain itself would clear the data of read ports in Amaranth's simulator, but not in hardware.
        m.domains.sync = ClockDomain("sync", reset_less=True)
        m.submodules.machine = ResetInserter(self.reset)(self.machine)
        host = self.machine.host.channels
        m.d.comb += [host["w"]["strb"].eq(15), host["b"]["ready"].eq(1), host["r"]["ready"].eq(1)]
        return m


def on_port(shown: tuple[int, ...], inputs: Inputs) -> tuple[Address, Address, WriteBeat, ReadBeat, Response]:
    """What is on the memory port in a cycle, by channel: AR, AW, W, R, B."""
    ar_valid, ar_addr, ar_len, ar_size, ar_burst, ar_id, aw_valid, aw_addr, aw_len, aw_size, aw_burst, aw_id = shown[
        :12
    ]
    w_valid, w_data, w_strb, w_last, r_ready, b_ready, _ = shown[12:]
    ar_ready, aw_ready, r_valid, r_id, r_data, r_last, r_resp, w_ready, b_valid, b_resp, b_id = inputs[len(QUIET) :]
    return (
        (ar_valid, ar_ready, ar_addr, ar_len, ar_size, ar_burst, ar_id),
        (aw_valid, aw_ready, aw_addr, aw_len, aw_size, aw_burst, aw_id),
        (w_valid, w_ready, w_data, w_strb, w_last),
        (r_valid, r_ready, r_id, r_data, r_last, r_resp),
        (b_valid, b_ready, b_id, b_resp),
    )


class Bench:
    """Runs launches one after the other on one machine; `outcomes` has the results of those that are done."""

    def __init__(self, config: HardwareConfig, launches: tuple[Launch, ...]) -> None:
        self.config, self.launches = config, launches
        self.outcomes: list[Outcome] = []
        self.recorder: Recorder

    def steps(self) -> Steps:
        """The whole run."""
        for launch in self.launches:
            yield from self._launch(launch)

    def _launch(self, launch: Launch) -> Steps:
        content = Bytes(launch.memory)

        def memory() -> Dram:
            return Dram(
                self.config.memory,
                self.config.timing.response_latency,
                content,
                memory_end=launch.memory_end,
                error=launch.error,
                stalls=launch.stalls,
            )

        yield from self._prepare(launch)
        if launch.reset_at is not None:
            yield from self._cycles(launch, memory(), until=launch.reset_at)
            yield (1, *QUIET[1:], *SILENT)
            content.pages = Bytes(launch.memory).pages
            yield from self._prepare(launch)
        dram = memory()
        yield from self._cycles(launch, dram, until=None)
        yield from self._end(launch, dram, content)

    def _prepare(self, launch: Launch) -> Steps:
        for name, value in settings(launch):
            yield (0, 1, BY_NAME[name].address, 1, value, 0, 0, *SILENT)

    def _cycles(self, launch: Launch, dram: Dram, until: int | None) -> Steps:
        """Run to the launch's end, or to cycle `until`."""
        self.recorder = Recorder(launch.count)
        record, show, cycle = self.recorder.cycle, dram.offer, 0
        shown, trace = yield (*QUIET, *SILENT)
        waited = 0
        while not trace[0]:  # in cycle 0 the machine sees the start; until then the memory waits
            assert waited < 4, "the RTL did not see its start"
            waited += 1
            shown, trace = yield (*QUIET, *SILENT)
        show(0)  # for its random draws: the bus is idle in cycle 0
        offer = before = NO_OFFER
        inputs: Inputs = (*QUIET, *SILENT)
        protocol = Protocol(self.config.memory)
        while True:
            # In cycle 0, done and fault are still those of the previous launch.
            if cycle and (trace[1] or trace[2]):
                protocol.end(cycle)
                return
            record(cycle, trace)
            port = on_port(shown, inputs)
            protocol.see(cycle, *port)
            dram.see(cycle, *port)
            cycle += 1
            if cycle == until:
                return
            if cycle > launch.most_cycles:
                raise BrokenRunError(f"the RTL did not end the launch within {launch.most_cycles} cycles")
            offer = show(cycle)
            if offer != before:
                before = offer
                ar_ready, aw_ready, beat, w_ready, response = offer
                number, data, last, answer = beat or (0, 0, 0, 0)
                inputs = (
                    *QUIET,
                    *(ar_ready, aw_ready, beat is not None, number, data, last, answer),
                    *(w_ready, response is not None, response or 0, WRITE_ID),
                )
            shown, trace = yield inputs

    def _end(self, launch: Launch, dram: Dram, content: Bytes) -> Steps:
        values = {}
        for name in REPORT:
            yield (0, 0, 0, 0, 0, 1, BY_NAME[name].address, *SILENT)
            shown, _ = yield (*QUIET, *SILENT)
            values[name] = shown[-1]
        recorder = self.recorder
        self.outcomes.append(
            Outcome(
                **report(values),
                memory=content.paged(),
                operations=dict(recorder.operations),
                bytes_read={"instructions": INSTRUCTION_BYTES * recorder.dispatched, **recorder.bytes_read},
                bytes_written=recorder.bytes_written,
                bursts=dram.bursts,
                beats=dram.beats,
                interleaved=dram.interleaved,
                trace=recorder.trace if launch.trace else None,
            )
        )
