"""Pages to look at, one file of HTML each, which needs no network; and what notebooks show of values."""
