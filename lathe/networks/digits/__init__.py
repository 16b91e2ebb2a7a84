"""A small convolutional network on the UCI optical digits, which `lathe run` runs by default."""
