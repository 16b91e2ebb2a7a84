"""A small convolutional network on the UCI optical digits: the job of `lathe run`."""
