"""Prints the milliseconds of `import torch` on each rank. With the argument "hvd": of `import hvd.torch` and hvd.init()."""

import sys
import time

begin = time.perf_counter()
if sys.argv[1:] == ["hvd"]:
    import hvd.torch as hvd

    hvd.init()
else:
    import torch  # noqa: F401
print((time.perf_counter() - begin) * 1000)
