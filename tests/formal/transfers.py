"""What the decoder of transfers sees to, and what takes them rests on: `test_decoder.py` proves it of every word."""


def is_legal(transfer):
    """Chains have bytes; a transfer without chains is padding before them, or nothing at all."""
    chains = (transfer.chains != 0) & (transfer.chain_bytes != 0)
    only_pads = (transfer.chains == 0) & (transfer.lead != 0) & (transfer.tail == 0)
    return (transfer.nothing & (transfer.chains == 0)) | (~transfer.nothing & (chains | only_pads))
