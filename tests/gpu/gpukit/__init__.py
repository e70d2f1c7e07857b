"""What tests/gpu/device is made of. The standard library of Python 3.9 only, so that it runs on any machine with a GPU."""
