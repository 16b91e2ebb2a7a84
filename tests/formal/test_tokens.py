"""Token counters: a queue's count is the number of its tokens, for all time."""

from amaranth import Signal
from claims import proved

from lathe.rtl import tokens

MOST = (1 << tokens.TOKEN_BITS) - 1


def inside(claim, counter):
    """The number of tokens in a queue. Units pop only available tokens, and an overflow ends the launch."""
    found = Signal(32, name="inside")
    with claim.m.If(counter.load):
        claim.m.d.sync += found.eq(counter.value)
    with claim.m.Else():
        claim.m.d.sync += found.eq(found + counter.push - counter.pop)
    claim.assume(~counter.pop | counter.available)
    claim.assume(~counter.overflow | counter.load)
    claim.always("the count is the number of tokens", counter.count == found)
    claim.always("available means that there is a token", counter.available == (found != 0))
    return found


@proved(
    tokens,
    ("+ self.push - self.pop", "+ (self.push & ~self.pop) - self.pop"),
    ("self.count.eq(self.value)", "self.count.eq(self.value + self.push)"),
    induction=1,
)
def test_the_count_is_what_was_loaded_and_pushed_less_what_was_popped(claim, rtl):
    counter = claim.about(rtl.TokenCounter())
    tokens_inside = inside(claim, counter)
    claim.always("there are never more tokens than the count can hold", tokens_inside <= MOST)


@proved(
    tokens,
    ("self.count == 1", "self.count <= 2"),
    ("self.count == 1", "self.count[:15] == 1"),
    ("self.value != 0", "self.value[:15] != 0"),
    ("self.push | (self.available", "(self.push & ~self.pop) | (self.available"),
    induction=1,
    depth=6,
)
def test_a_token_is_available_exactly_while_there_is_one(claim, rtl):
    inside(claim, claim.about(rtl.TokenCounter()))


@proved(tokens, ("self.push & ~self.pop & ", "self.push & "), ("self.count.all()", "self.count[1:].all()"), induction=1)
def test_overflow_is_raised_exactly_when_a_token_is_pushed_to_a_full_queue(claim, rtl):
    counter = claim.about(rtl.TokenCounter())
    following = Signal(18)
    claim.m.d.comb += following.eq(counter.count + counter.push - counter.pop)
    claim.assume(~counter.pop | (counter.count != 0))
    claim.always("overflow is raised by a token for a full queue", counter.overflow == (following > MOST))
