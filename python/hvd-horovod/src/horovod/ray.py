"""Horovod in Ray: refused."""

from horovod._names import refuse

refuse("horovod.ray", "hvdrun -np N starts a program on hosts and in SLURM")
