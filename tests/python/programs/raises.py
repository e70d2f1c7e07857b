"""A rank that fails (raises.py all|one|interrupt|before) or catches Ctrl-C (raises.py interrupted FILE)."""

import os
import signal
import sys
import threading
from pathlib import Path

import hvd
from hvd._collectives import Handle

how = sys.argv[1]
if how == "before":
    raise RuntimeError("before init")
hvd.init()
if how == "all":
    raise ValueError("bad batch")
if how == "one" and hvd.rank() == 1:
    raise ValueError("bad batch 17")
if how == "interrupted":  # while rank 0 waits in a collective for rank 1
    signalled, main = Path(sys.argv[2]), threading.get_ident()

    def interrupt() -> None:
        while sys._current_frames()[main].f_code is not Handle.wait.__code__:
            pass
        os.kill(os.getpid(), signal.SIGINT)
        signalled.touch()

    if hvd.rank() == 0:
        threading.Thread(target=interrupt).start()
    while hvd.rank() == 1 and not signalled.exists():
        pass
    try:
        hvd.allgather_object("x" * 10_000)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    except hvd.HorovodInternalError:
        pass  # rank 0 has ended
    sys.exit()
if how == "interrupt":  # after all imports: Python prints an interrupt that comes during an import
    hvd.allgather_object(hvd.broadcast_object(None, root_rank=1))
print("waiting", flush=True)
hvd.broadcast_object(None, root_rank=1)  # rank 1 calls it only with "interrupt"
while how == "interrupt":
    hvd.allgather_object(hvd.rank())
