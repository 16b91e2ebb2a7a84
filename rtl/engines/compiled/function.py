"""Generates the Python source of a machine's function from its netlist."""

from collections.abc import Iterator, Sequence
from itertools import islice

from amaranth import Signal

from lathe.rtl.engines.compiled.bits import Bits, Source, constant, number_of, sliced
from lathe.rtl.engines.compiled.expressions import Writer
from lathe.rtl.engines.compiled.netlist import Netlist
from lathe.rtl.engines.compiled.order import Statement, ordered
from lathe.rtl.engines.compiled.placement import Placement
from lathe.rtl.engines.compiled.sources import Choice, Literal, Path, Register, Word, excludes

NAME = "machine"


class Function:
    """The source of a generator, which receives the inputs of a cycle as a tuple and yields the outputs of this cycle.

    The first `send` takes and yields None. With `state`, there is one more group of outputs: the values of `registers`
    after the cycle. Memories are its arguments, lists of words, in the order of `memories`.
    """

    def __init__(self, netlist: Netlist, inputs: Sequence[Signal], groups: list[int], *, state: bool = False) -> None:
        self.netlist, self.taken, self.groups, self.state = netlist, inputs, groups, state
        self.placement = placement = Placement(netlist)
        registers: list[Register | Word] = [*netlist.registers, *netlist.words]
        self.names: dict[Source, str] = {source: f"i{i}" for i, (_, source) in enumerate(netlist.inputs)}
        self.inputs = {id(signal): self.names[source] for signal, source in netlist.inputs}
        self.names |= {source: f"r{i}" for i, source in enumerate(registers)}
        chosen = [source for source in netlist.order if source in placement.variables]
        self.names |= {source: f"n{i}" for i, source in enumerate(chosen)}
        self.registers = {self.names[source]: source for source in registers}
        self.memories = {f"m{i}": memory for i, memory in enumerate(netlist.memories)}
        self.memory_names = {memory.cell: name for name, memory in self.memories.items()}
        self.tests: dict[Literal, tuple[str, set[str]]] = {}
        statements = [*self._values(chosen), *self._outputs(), *self._registers(), *self._words(), *self._writes()]
        for statement in statements:
            for literal in statement.block:
                statement.tests |= self._test(literal)[1]
        self.statements = ordered(statements, set(self.registers), set(self.memories))

    @property
    def text(self) -> str:
        """The source of the whole function."""
        taken = "".join(f"{self.inputs.get(id(signal), 'unused')}, " for signal in self.taken)
        given = f"(*outputs, ({''.join(f'{name}, ' for name in self.registers)}))" if self.state else "outputs"
        lines = [f"def {NAME}({', '.join(self.memories)}):"]
        lines += [f"    {self.names[source]} = {source.init}" for _, source in self.netlist.inputs]
        for name, register in self.registers.items():
            lines.append(f"    {name} = {register.init if isinstance(register, Register) else 0}")
        lines += [f"    {taken or '_'} = yield", "    while True:"]
        lines += self._lines(2)
        lines.append(f"        {taken or '_'} = yield {given}")
        return "\n".join(lines) + "\n"

    def _statement(self, block: Path, target: str | None, text: str, writer: Writer) -> Statement:
        reads = {self.names[source] for source in writer.reads}
        return Statement(block, f"{target} = {text}" if target else text, reads, target)

    def _assigned(self, block: Path, target: str, value: Bits) -> Statement:
        writer = Writer(self.names)
        text = writer.value(value)
        return self._statement(block, target, text, writer)

    def _values(self, chosen: list[Source]) -> Iterator[Statement]:
        for source in chosen:
            name, block = self.names[source], self.placement.blocks[source]
            if isinstance(source, Choice):
                cases = self.placement.cases(source)
                if not _complete(block, [path for path, _ in cases]):
                    yield self._assigned(block, name, source.default)
                for path, value in cases:
                    yield self._assigned(path, name, value)
            else:
                hidden = Writer({each: text for each, text in self.names.items() if each is not source})
                yield self._statement(block, name, hidden.source(source), hidden)

    def _outputs(self) -> Iterator[Statement]:
        writer = Writer(self.names)
        values = iter(self.netlist.outputs)
        groups = ["".join(f"{writer.value(output)}, " for output in islice(values, size)) for size in self.groups]
        yield self._statement((), "outputs", "".join(f"({group}), " for group in groups), writer)

    def _registers(self) -> Iterator[Statement]:
        for register in self.netlist.registers:
            name = self.names[register]
            if register.default is not None:
                yield self._assigned((), name, register.default)
            for path, value in register.cases:
                yield self._assigned(path, name, value)

    def _words(self) -> Iterator[Statement]:
        for word in self.netlist.words:
            if word.path is None:
                continue
            writer = Writer(self.names)
            memory = self.memory_names[word.memory.cell]
            text = f"{memory}[{writer.value(word.address)}]"
            statement = self._statement(word.path, self.names[word], text, writer)
            if word.after:
                statement.follows = memory
            else:
                statement.reads.add(memory)
            yield statement

    def _writes(self) -> Iterator[Statement]:
        for name, memory in self.memories.items():
            for write in memory.writes:
                for low, width, path in write.parts:
                    writer = Writer(self.names)
                    word = f"{name}[{writer.value(write.address)}]"
                    data = sliced(write.data, low, width)
                    if width == memory.width:
                        text = writer.value(data)
                    else:
                        others = hex((1 << memory.width) - 1 ^ (1 << width) - 1 << low)
                        number = number_of(data)
                        new = f" | {writer.value(data)} << {low}" if number is None else ""
                        if number:
                            new = f" | {writer.value(constant(number << low, memory.width))}"
                        text = f"{word} & {others}{new}"
                    if len(memory.rows) > memory.depth:  # a write beyond the end has no effect
                        text = f"{text} if {writer.value(write.address)} < {memory.depth} else 0"
                    statement = self._statement(path, word, text, writer)
                    statement.writes = name
                    yield statement

    def _test(self, literal: Literal) -> tuple[str, set[str]]:
        """A condition in Python, and the variables that it reads."""
        if literal not in self.tests:
            writer = Writer(self.names)
            text = writer.truth(literal[0])
            reads = {self.names[source] for source in writer.reads}
            self.tests[literal] = text if literal[1] else f"not {text}", reads
        return self.tests[literal]

    def _lines(self, depth: int) -> Iterator[str]:
        """The statements, nested under their conditions."""
        opened: Path = ()
        chains: list[list[Literal]] = []  # at each level, the conditions of the open if-elif chain
        for statement in self.statements:
            block = statement.block
            common = 0
            while common < min(len(opened), len(block)) and opened[common] == block[common]:
                common += 1
            chain = chains[common] if common < min(len(opened), len(block)) else []
            chains = chains[:common]
            for level in range(common, len(block)):
                literal = block[level]
                keyword = "if"
                if len(chain) == 1 and chain[0] == (literal[0], not literal[1]):
                    keyword = "else"
                elif chain and all(excludes(each, literal) for each in chain):
                    keyword = "elif"
                # A chain ends with else.
                chains.append([] if keyword == "else" else [*chain, literal] if keyword == "elif" else [literal])
                chain = []
                test = "" if keyword == "else" else f" {self._test(literal)[0]}"
                yield f"{'    ' * (depth + level)}{keyword}{test}:"
            opened = block
            yield "    " * (depth + len(block)) + statement.text


def _complete(block: Path, paths: list[Path]) -> bool:
    """Whether the cases of a block are exhaustive: two of them have opposite conditions."""
    inner = [path[len(block) :] for path in paths]
    single = {path[0] for path in inner if len(path) == 1}
    return any((bit, not value) in single for bit, value in single)
