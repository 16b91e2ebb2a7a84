"""Pages to look at: one file of HTML each, which needs no network, with figures of a plotting library."""
