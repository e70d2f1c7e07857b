"""Finds its rank in SLURM's variables, connects to rank 0 at MASTER_ADDR, and sums the ranks."""
import os
import socket

rank, size = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    with socket.create_server(("", address[1]), family=socket.AF_INET6, dualstack_ipv6=True) as server:
        others = [server.accept()[0] for _ in range(size - 1)]
    total = sum(int(other.makefile().readline()) for other in others)
    for other in others:
        other.sendall(f"{total}\n".encode())
else:
    while True:
        try:
            connection = socket.create_connection(address)
            break
        except ConnectionRefusedError:
            pass
    connection.sendall(f"{rank}\n".encode())
    total = int(connection.makefile().readline())
per_host = size // int(os.environ["SLURM_NNODES"])
assert (int(os.environ["SLURM_NODEID"]), int(os.environ["SLURM_LOCALID"])) == divmod(rank, per_host)
assert int(os.environ["SLURM_NTASKS_PER_NODE"]) == per_host
print(f"slurm {os.environ['SLURM_JOB_ID']}: rank {rank} of {size}, sum {total}")
