"""Random streams and machines that the RTL can be built for."""

from comparison import NO_PAGES, Stream, in_sequence
from streams import legal_machine, legal_stream, random_machine, random_stream

from lathe.isa import Finish, MachineFault
from lathe.sim import replay


def buildable(cfg):
    """The machine, with the pipeline and the response latency that hardware needs at least."""
    timing = cfg.timing
    return cfg.with_(
        **{
            "timing.gemm_pipeline": max(3, timing.gemm_pipeline),
            "timing.response_latency": max(1, timing.response_latency),
        }
    )


def other_memory(rng, cfg):
    """A machine of the same hardware behind another memory."""
    return cfg.with_(
        **{
            "memory.latency": rng.choice([0, 1, 8, 40]),
            "memory.cycles_per_beat": rng.choice([1, 1, 2]),
            "memory.shared_bandwidth": rng.random() < 0.7,
        }
    )


def stream_of_time(rng, cfg, length):
    """A stream whose time is of interest; its tokens do not order all data, which are zeros mostly."""
    while True:
        instructions, tokens, _ = random_stream(rng, length)
        stream = Stream(instructions, *NO_PAGES, tokens=tokens, insn_addr=rng.choice([0x100000, 0x100010, 0x100FE0]))
        try:
            replay(cfg, stream.raw(cfg), trace=False)
        except MachineFault:  # a block that does not fit this machine's scratchpads
            continue
        return stream


def stream_of_data(rng, cfg, length):
    """A stream on random data, in which every instruction begins when the one before it is done."""
    instructions, page_addrs, pages = legal_stream(rng, cfg, length)
    return Stream(in_sequence([*instructions, Finish()]), page_addrs, pages)


__all__ = ["buildable", "legal_machine", "other_memory", "random_machine", "stream_of_data", "stream_of_time"]
