"""The hardware description: one frozen configuration, its validation and the shipped YAML files."""
