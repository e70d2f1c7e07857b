"""A rank that fails: raises.py all|one|interrupt|before."""

import sys

import hvd

how = sys.argv[1]
if how == "before":
    raise RuntimeError("before init")
hvd.init()
if how == "all":
    raise ValueError("bad batch")
if how == "one" and hvd.rank() == 1:
    raise ValueError("bad batch 17")
print("waiting", flush=True)
hvd.broadcast_object(None, root_rank=1)  # for which rank 1 never comes, but with "interrupt"
while how == "interrupt":
    hvd.allgather_object(hvd.rank())
