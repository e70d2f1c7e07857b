"""Makes steps in generations: elastic_steps.py WHAT. At step 5 of the first generation, member 1 does WHAT. Prints the end.

kill, raise (an exception of the program), exit (code 3), leave (hvd.shutdown and code 3), wait (for ever, without the
others; then member 2 kills itself), swallow (as wait, in a loop that continues after every exception), mismatch
(kills itself; then the tensors differ), replace (kills itself; the others wait at step 8 for a new rank), update (the hosts have changed), internal (all ranks raise
HorovodInternalError), root (kills itself while it gives its state to all, and has the most commits).
"""

from __future__ import annotations

import os
import signal
import sys
import time

import hvd
import hvd.numpy
import numpy as np

WHAT = sys.argv[1]
MEMBER = hvd.elastic.member if hvd.elastic.is_elastic() else hvd.rank


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class State(hvd.elastic.ObjectState):
    def sync(self) -> None:
        if WHAT == "root" and hvd.elastic.generation() == 2:
            self._broadcast(0)  # all are here
            if MEMBER() == 1:
                assert hvd.elastic.newest() == hvd.rank()
                kill()
        super().sync()


def do_it(state: State) -> None:
    me = MEMBER()
    if WHAT == "internal":
        raise hvd.elastic.HorovodInternalError
    if WHAT == "update" and me == 1:
        state.on_hosts_updated(1.5, hvd.elastic.HostUpdateResult.removed)
    if WHAT == "root" and me == 1:
        state.commit()  # alone, in a job whose other ranks are about to lose member 2
    if WHAT == "root" and me == 2 or WHAT in ("kill", "mismatch", "replace") and me == 1:
        kill()
    if WHAT == "raise" and me == 1:
        raise KeyError("no such sample")
    if WHAT == "leave" and me == 1:
        hvd.shutdown()
    if WHAT in ("exit", "leave") and me == 1:
        sys.exit(3)
    if WHAT in ("wait", "swallow") and me == 2:
        kill()
    if WHAT == "wait" and me == 1:
        time.sleep(1000)


@hvd.elastic.run
def train(state: State) -> None:
    while state.step < 10:
        if state.step == 5 and not state.done:
            state.done = hvd.elastic.generation() > 1
            if not state.done:
                do_it(state)
        if WHAT == "replace" and state.step == 8 and hvd.size() == 2:
            while state._host_messages.empty():
                time.sleep(0.005)
        shape = 2 + hvd.rank() if WHAT == "mismatch" and hvd.elastic.generation() > 1 else 2
        total = hvd.numpy.allreduce(np.ones(shape), op=hvd.Sum, name="gradient of layer 3")
        assert total[0] == hvd.size()
        state.step += 1
        state.sizes.append(hvd.size())
        state.commit()


hvd.init()
if hvd.elastic.is_elastic() and hvd.elastic.is_newcomer():
    given = hvd.broadcast_object(MEMBER(), 0)
    print(f"newcomer {given} rank {hvd.rank()} size {hvd.size()} local {hvd.local_rank()}", flush=True)
state = State(step=0, sizes=[], done=False)
resets: list[int] = []
state.register_reset_callbacks([lambda: resets.append(hvd.size())])
if WHAT == "swallow" and MEMBER() == 1:
    wrapped = hvd.numpy.allreduce

    def careless(*args: object, **options: object) -> object:
        while True:
            try:
                return wrapped(*args, **options)
            except Exception:
                time.sleep(0.01)

    hvd.numpy.allreduce = careless
train(state)
print(f"steps {state.step} sizes {''.join(map(str, state.sizes))} resets {resets} commits {state._commits}", flush=True)
