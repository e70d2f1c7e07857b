"""The modules of tests/gpu/device. They need only Python 3.9 and its standard library, so that they run on any machine with a GPU."""
