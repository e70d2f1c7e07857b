"""A double of NCCL's RAS, for a rank that imports it: a thread that answers at NCCL_RAS_ADDR.

The protocol is that of NCCL's src/ras/client_support.cc. The ranks know of each other by files in RAS_FOLDER. RAS_DOUBLE is
what it does: json (NCCL 2.28.7 and newer), text (2.26), silent, garbage, closes, endless, or none.
"""
import json
import os
import socket
import threading
from pathlib import Path

FOLDER = Path(os.environ["RAS_FOLDER"])
HOST = f"10.0.0.{sum(socket.gethostname().encode()) % 256}"  # each has an address of its own
DOES = os.environ["RAS_DOUBLE"]
calls = {"AllReduce": 0, "Broadcast": 0}


def called(function: str) -> None:
    """The rank is about to call a collective."""
    calls[function] += 1
    save()


def save() -> None:
    new = FOLDER / f"ras-{os.environ['RANK']}.new"
    new.write_text(json.dumps({"host": HOST, "pid": os.getpid(), "calls": calls}))
    new.rename(new.with_suffix(""))


def ranks() -> list[dict]:
    return [json.loads((FOLDER / f"ras-{rank}").read_text()) for rank in range(int(os.environ["WORLD_SIZE"]))]


def as_json() -> str:
    status = {"init_state": 0, "async_error": 0, "finalize_called": False, "destroy_flag": False, "abort_flag": False}
    members = [{"rank": rank, "host": one["host"], "pid": one["pid"], "cuda_dev": rank, "nvml_dev": rank, "status": status,
                "collective_count" "s": one["calls"]} for rank, one in enumerate(ranks())]
    communicator = {"hash": "0xae94", "secondary_hash": "0xb7:0xb8", "size": len(members), "ranks_count": len(members),
                    "missing_ranks_count": 0, "ranks": members, "missing_ranks": []}
    return json.dumps({"nccl_version": "2.29.1", "communicators_count": 1, "communicators": [communicator],
                       "ras": {"collection_time_sec": 0, "timeouts_count": 0}}, indent=2) + "\n"


def as_text() -> str:
    text = "NCCL version 2.26.2 compiled with CUDA 12.8\n\nJob summary\n===========\n\nCommunicators... (0.00s)\n=============\n\n"
    text += "Errors\n======\n\nWarnings\n========\n\n"
    for function in calls:
        values = [one["calls"][function] for one in ranks()]
        if len(set(values)) == 1:
            continue
        text += f"#0-0 (000000000000ae94) MISMATCH\n  Communicator ranks have different {function} operation count" "s\n"
        for value in sorted(set(values), key=lambda value: -values.count(value)):
            words = f"launched up to operation {value}" if value else "not launched any operations"
            if values.count(value) > 1:
                text += f"  {values.count(value)} ranks have {words}\n"
            else:
                rank = values.index(value)
                text += f"  Rank {rank} has {words} -- GPU {rank} managed by process {ranks()[rank]['pid']} on node {HOST}\n"
        text += "\n"
    return text


def answer(connection: socket.socket) -> None:
    is_json = False
    for line in connection.makefile("r"):
        command = line.strip().lower()
        if command.startswith("client protocol "):
            connection.sendall(b"SERVER PROTOCOL 2\n")
        elif command.startswith("timeout "):
            connection.sendall(b"OK\n")
        elif command == "set format json" and DOES != "text":
            is_json = True
            connection.sendall(b"OK\n")
        elif command == "verbose status":
            if DOES == "silent":
                continue
            if DOES == "endless":
                while True:
                    connection.sendall(b" " * 65536)
            connection.sendall({"garbage": "\x00{]\n" * 1000, "closes": as_json()[:300]}.get(DOES, as_json() if is_json else as_text()).encode())
            return
        else:
            connection.sendall(f"ERROR: Unknown command {line}".encode())


def serve(listener: socket.socket) -> None:
    while True:
        connection, _ = listener.accept()
        try:
            with connection:
                answer(connection)
        except OSError:  # the client has gone
            pass


def listen() -> None:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    host, port = os.environ["NCCL_RAS_ADDR"].split(":")
    listener.bind((host, int(port)))
    listener.listen()
    threading.Thread(target=serve, args=(listener,), daemon=True).start()


os.environ["HVD_SHM_DIR"] = str(FOLDER)  # where the doubles of NCCL meet, also those of several hosts
save()
if DOES != "none":
    listen()
