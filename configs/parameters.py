"""The independent parameters of a machine, and the numbers that follow from them."""

from dataclasses import dataclass, field

from lathe.configs.encoding import TABLE_ELEMENTS
from lathe.configs.memory import MemoryConfig, TimingConfig


@dataclass(frozen=True)
class MachineParameters:
    """Parameters as they are given, and what would follow from them.

    :class:`lathe.configs.hardware_config.HardwareConfig` says what they are, and checks them.
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

    # Sizes of elements in bytes, in DRAM and in the scratchpads.

    @property
    def uop_element_bytes(self) -> int:
        """Bytes of a micro-op: 4."""
        return 4

    @property
    def inp_element_bytes(self) -> int:
        """Bytes of an input element: batch × block_in values."""
        return self.batch * self.block_in * self.inp_bits // 8

    @property
    def wgt_element_bytes(self) -> int:
        """Bytes of a weight element: block_out × block_in values."""
        return self.block_out * self.block_in * self.wgt_bits // 8

    @property
    def acc_element_bytes(self) -> int:
        """Bytes of an accumulator element: batch × block_out values."""
        return self.batch * self.block_out * self.acc_bits // 8

    @property
    def out_element_bytes(self) -> int:
        """Bytes of an output element: batch × block_out values."""
        return self.batch * self.block_out * self.out_bits // 8

    @property
    def acc8_element_bytes(self) -> int:
        """Bytes in DRAM of an accumulator element whose values are held in 8 bits."""
        return self.batch * self.block_out

    @property
    def par_element_bytes(self) -> int:
        """Bytes of a parameter element: block_out pairs of 32 bits, the bias and the factor of a lane."""
        return self.block_out * 8

    @property
    def lut_element_bytes(self) -> int:
        """Bytes of an element of a table: block_out values of 8 bits, what the lanes have for one value."""
        return self.block_out

    @property
    def address_bits(self) -> int:
        """Bits of a byte address of DRAM: 32 of dram_base, one for what strides add, and the largest element's."""
        largest = max(self.uop_element_bytes, self.inp_element_bytes, self.wgt_element_bytes, self.acc_element_bytes)
        if self.par_depth:
            largest = max(largest, self.par_element_bytes)
        return 33 + largest.bit_length() - 1

    # Depths of the scratchpads in elements.

    @property
    def uop_depth(self) -> int:
        """Micro-ops that the uop scratchpad holds."""
        return self.uop_buffer_bytes // self.uop_element_bytes

    @property
    def inp_depth(self) -> int:
        """Elements that the inp scratchpad holds."""
        return self.inp_buffer_bytes // self.inp_element_bytes

    @property
    def wgt_depth(self) -> int:
        """Elements that the wgt scratchpad holds."""
        return self.wgt_buffer_bytes // self.wgt_element_bytes

    @property
    def acc_depth(self) -> int:
        """Elements that the acc scratchpad holds."""
        return self.acc_buffer_bytes // self.acc_element_bytes

    @property
    def out_depth(self) -> int:
        """Elements of the out view: as many as acc has, since out is acc's low bits."""
        return self.acc_depth

    @property
    def par_depth(self) -> int:
        """Elements that the par scratchpad holds."""
        return self.par_buffer_bytes // self.par_element_bytes

    @property
    def lut_depth(self) -> int:
        """Elements that the lut scratchpad holds."""
        return self.lut_buffer_bytes // self.lut_element_bytes

    # Bits that index a scratchpad; a scratchpad of one element needs none.

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
        """log2 of the tables that lut holds; 0 without lut."""
        return max((self.lut_depth // TABLE_ELEMENTS).bit_length() - 1, 0)

    @property
    def multipliers(self) -> int:
        """Multipliers of the matrix core: products of two values that a GEMM micro-op makes in its step."""
        return self.batch * self.block_in * self.block_out

    @property
    def bus_bytes(self) -> int:
        """Bytes of one beat of the memory bus."""
        return self.memory.bus_bits // 8
