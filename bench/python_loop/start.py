"""Prints the milliseconds that `import torch` takes, or with "hvd" `import hvd.torch` and hvd.init(), on rank 0."""

import os
import sys
import time

begin = time.perf_counter()
if sys.argv[1:] == ["hvd"]:
    import hvd.torch as hvd

    hvd.init()
else:
    import torch  # noqa: F401
elapsed = time.perf_counter() - begin
if os.environ.get("HVD_RANK", "0") == "0":
    print(elapsed * 1000)
