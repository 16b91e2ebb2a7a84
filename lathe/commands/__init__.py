"""The subcommands of `lathe`, one per file; command_line.py registers them."""
