"""Horovod in Spark: refused."""

from horovod._names import refuse

refuse("horovod.spark", "hvdrun -np N starts a program on hosts and in SLURM")
