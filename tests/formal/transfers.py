"""The invariant of DMA descriptors that the units rely on; `test_decoder.py` proves it for every word."""


def is_legal(transfer):
    """Chains are not empty; a transfer without chains has only leading padding, or is `nothing`."""
    chains = (transfer.chains != 0) & (transfer.chain_bytes != 0)
    only_pads = (transfer.chains == 0) & (transfer.lead != 0) & (transfer.tail == 0)
    return (transfer.nothing & (transfer.chains == 0)) | (~transfer.nothing & (chains | only_pads))
