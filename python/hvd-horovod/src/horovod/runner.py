"""horovodrun from Python: refused."""

from horovod._names import refuse

refuse("horovod.runner", "hvdrun -np N starts a program")
