"""The independent parameters of a machine, and the numbers derived from them."""

from dataclasses import dataclass, field

from lathe.configs.encoding import TABLE_ELEMENTS
from lathe.configs.memory import MemoryConfig, TimingConfig


@dataclass(frozen=True)
class MachineParameters:
    """Parameters as given, unchecked, and the numbers derived from them.

    :class:`lathe.configs.hardware_config.HardwareConfig` describes and checks them. ``element`` in names is a vector.
    """

    name: str
    batch: int
    block_in: int
    block_out: int
    uop_buffer_bytes: int
    inp_buffer_bytes: int
    wgt_buffer_bytes: int
    acc_buffer_bytes: int
    par_buffer_bytes: int = 0
    lut_buffer_bytes: int = 0
    inp_bits: int = 8
    wgt_bits: int = 8
    acc_bits: int = 32
    out_bits: int = 8
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    timing: TimingConfig = field(default_factory=TimingConfig)
    extensions: tuple[str, ...] = ()

    # Sizes of vectors in bytes, in DRAM and in the scratchpads.

    @property
    def uop_element_bytes(self) -> int:
        """Bytes of a micro-op: 4."""
        return 4

    @property
    def inp_element_bytes(self) -> int:
        """Bytes of an input vector: batch × block_in values."""
        return self.batch * self.block_in * self.inp_bits // 8

    @property
    def wgt_element_bytes(self) -> int:
        """Bytes of a weight vector: block_out × block_in values."""
        return self.block_out * self.block_in * self.wgt_bits // 8

    @property
    def acc_element_bytes(self) -> int:
        """Bytes of an accumulator vector: batch × block_out values."""
        return self.batch * self.block_out * self.acc_bits // 8

    @property
    def out_element_bytes(self) -> int:
        """Bytes of an output vector: batch × block_out values."""
        return self.batch * self.block_out * self.out_bits // 8

    @property
    def acc8_element_bytes(self) -> int:
        """Bytes in DRAM of an accumulator vector of 8-bit values."""
        return self.batch * self.block_out

    @property
    def par_element_bytes(self) -> int:
        """Bytes of a parameter vector: for each of block_out lanes 64 bits, its bias and its factor."""
        return self.block_out * 8

    @property
    def lut_element_bytes(self) -> int:
        """Bytes of a table vector: for each of block_out lanes 8 bits, its entry for one index."""
        return self.block_out

    @property
    def address_bits(self) -> int:
        """Bits of a DRAM byte address: 32 of dram_base, 1 for strides, and log2 of the largest vector's bytes."""
        largest = max(self.uop_element_bytes, self.inp_element_bytes, self.wgt_element_bytes, self.acc_element_bytes)
        if self.par_depth:
            largest = max(largest, self.par_element_bytes)
        return 33 + largest.bit_length() - 1

    # Depths of the scratchpads in vectors.

    @property
    def uop_depth(self) -> int:
        """Micro-ops that the uop scratchpad holds."""
        return self.uop_buffer_bytes // self.uop_element_bytes

    @property
    def inp_depth(self) -> int:
        """Vectors that the inp scratchpad holds."""
        return self.inp_buffer_bytes // self.inp_element_bytes

    @property
    def wgt_depth(self) -> int:
        """Vectors that the wgt scratchpad holds."""
        return self.wgt_buffer_bytes // self.wgt_element_bytes

    @property
    def acc_depth(self) -> int:
        """Vectors that the acc scratchpad holds."""
        return self.acc_buffer_bytes // self.acc_element_bytes

    @property
    def out_depth(self) -> int:
        """Vectors of out: as many as acc has, since out is acc's low bits."""
        return self.acc_depth

    @property
    def par_depth(self) -> int:
        """Vectors that the par scratchpad holds."""
        return self.par_buffer_bytes // self.par_element_bytes

    @property
    def lut_depth(self) -> int:
        """Vectors that the lut scratchpad holds."""
        return self.lut_buffer_bytes // self.lut_element_bytes

    # Bits that index a scratchpad; a scratchpad of one vector needs none.

    @property
    def uop_index_bits(self) -> int:
        """log2 of uop_depth."""
        return self.uop_depth.bit_length() - 1

    @property
    def inp_index_bits(self) -> int:
        """log2 of inp_depth."""
        return self.inp_depth.bit_length() - 1

    @property
    def wgt_index_bits(self) -> int:
        """log2 of wgt_depth."""
        return self.wgt_depth.bit_length() - 1

    @property
    def acc_index_bits(self) -> int:
        """log2 of acc_depth."""
        return self.acc_depth.bit_length() - 1

    @property
    def par_index_bits(self) -> int:
        """log2 of par_depth; 0 without par."""
        return max(self.par_depth.bit_length() - 1, 0)

    @property
    def lut_index_bits(self) -> int:
        """log2 of lut_depth; 0 without lut."""
        return max(self.lut_depth.bit_length() - 1, 0)

    @property
    def table_bits(self) -> int:
        """log2 of the number of tables in lut; 0 without lut."""
        return max((self.lut_depth // TABLE_ELEMENTS).bit_length() - 1, 0)

    @property
    def multipliers(self) -> int:
        """Multipliers of the matrix core: multiplications that a GEMM micro-op performs per cycle."""
        return self.batch * self.block_in * self.block_out

    @property
    def bus_bytes(self) -> int:
        """Bytes of one beat of the memory bus."""
        return self.memory.bus_bits // 8
