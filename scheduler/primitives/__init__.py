"""Schedule primitives, one file each; each is a method of ``Stage`` or ``Schedule``."""
