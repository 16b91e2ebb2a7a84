"""Pages and notebooks: what users look at."""
