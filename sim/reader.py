"""The DMA engine of load and compute: requests the bursts of one transfer, and knows when its data side is done."""

from collections import deque

from lathe.configs.memory import CUT
from lathe.sim.port import NEVER, ReadPort
from lathe.sim.transfer import Transfer, burst_end


class Reader:
    """Address and data side of one read master. ``request`` is the cycle from which it requests its next burst.

    ``begin`` starts a transfer; ``run`` takes grants until the transfer has no burst left (``request`` is NEVER then)
    or another master may come in between. Afterwards ``last_grant`` and ``last_step`` are the cycles of the last
    burst's grant and of the data side's last step, and ``steps`` is the number of the transfer's steps.
    """

    def __init__(self, bus_shift: int, burst_beats: int, fifo_beats: int) -> None:
        self.bus_shift = bus_shift
        self.capacity = fifo_beats
        self.limit = min(burst_beats, fifo_beats)
        # Bursts whose room is not given back yet: (cycle of the last beat's step, beats).
        self.credits: deque[tuple[int, int]] = deque()
        self.used = 0  # beats of those and of the burst that is requested next
        self.request = NEVER
        self.last_grant = self.last_step = -1
        self.steps = 0
        self.transfer: Transfer
        self.chains_left = self.chain_end = 0
        self.address = self.stop = self.beats = 0  # of the burst that is requested next

    def begin(self, transfer: Transfer, start: int, first_step: int) -> None:
        """Start a transfer that reads something: requests when its first burst is cut, steps from `first_step` on."""
        self.transfer = transfer
        self.chains_left = transfer.chains
        self.last_step = first_step - 1 + transfer.lead
        self.steps = transfer.lead + transfer.tail + transfer.gap * (transfer.chains - 1)
        self.chain_end = transfer.address + transfer.chain_bytes
        self.cut(transfer.address, start + 1 + CUT)

    def cut(self, address: int, request: int) -> None:
        """Cut the next burst, requested from `request` on or from when the FIFO has room for all of it."""
        shift = self.bus_shift
        self.address = address
        self.stop = burst_end(address, self.chain_end, shift, self.limit)
        self.beats = ((self.stop - 1) >> shift) - (address >> shift) + 1
        used = self.used + self.beats
        while used > self.capacity:
            taken, beats = self.credits.popleft()
            used -= beats
            if taken + 2 > request:
                request = taken + 2
        self.used = used
        self.request = request

    def run(self, port: ReadPort, horizon: int) -> bool:
        """Take one grant, and all further ones that fall before the cycle `horizon`; true when the transfer is through.

        The caller knows that this master wins the first grant, and that no other master requests before `horizon`.
        """
        last_step = self.last_step
        grant = max(self.request, port.slot)
        while True:
            beats = self.beats
            arrived = port.grant(grant, beats)
            last_step = max(last_step + beats, arrived + 1)
            self.credits.append((last_step, beats))
            self.steps += beats
            address = self.stop
            if address == self.chain_end:
                self.chains_left -= 1
                if not self.chains_left:
                    self.last_step = last_step + self.transfer.tail
                    self.last_grant = grant
                    self.request = NEVER
                    return True
                last_step += self.transfer.gap
                address = self.chain_end - self.transfer.chain_bytes + self.transfer.stride_bytes
                self.chain_end = address + self.transfer.chain_bytes
            self.cut(address, grant + 1)
            grant = max(self.request, port.slot)
            if grant >= horizon:
                self.last_step = last_step
                return False
