"""Sums the ranks with mpi4py, which starts over the PMIx server of hvdrun's agent."""
import mpi4py
from mpi4py import MPI

comm = MPI.COMM_WORLD
print(f"mpi4py {mpi4py.__version__}: rank {comm.Get_rank()} of {comm.Get_size()}, sum {comm.allreduce(comm.Get_rank())}")
