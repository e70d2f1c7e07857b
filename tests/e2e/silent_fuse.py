"""silent_fuse.py FOLDER: mounts a file system there whose file `data` never gets its contents. Prints "mounted".

It answers as a file system does (FUSE's protocol 7.31: INIT, LOOKUP, GETATTR, OPEN), but not to READ, and not to a
LOOKUP of `lost`. When it leaves one of them without an answer, it makes the file FOLDER.asked. Ends with its mount
namespace, or when it is killed: then who reads gets an error."""

from __future__ import annotations

import ctypes
import os
import stat
import struct
import sys

LOOKUP, FORGET, GETATTR, OPEN, READ, RELEASE, FLUSH, INIT, OPENDIR, INTERRUPT = 1, 2, 3, 14, 15, 18, 25, 26, 27, 36
ROOT, FILE = 1, 2
HEADER = struct.Struct("=IIQQIIII")  # length, opcode, unique, node, uid, gid, pid, padding
ENOENT, ENOSYS = 2, 38


def attributes(node: int) -> bytes:
    mode, size = (stat.S_IFDIR | 0o755, 0) if node == ROOT else (stat.S_IFREG | 0o644, 1 << 20)
    return struct.pack("=6Q10I", node, size, size // 512, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def answer(opcode: int, node: int, body: bytes) -> bytes | int:
    """Returns what the kernel wants to know, or an error."""
    if opcode == INIT:
        return struct.pack("=IIIIHHIIHHI7I", 7, 31, 1 << 16, 0, 16, 12, 1 << 16, 1, 16, 0, 0, *[0] * 7)
    if opcode == LOOKUP:
        return struct.pack("=4Q2I", FILE, 0, 0, 0, 0, 0) + attributes(FILE) if body.rstrip(b"\0") == b"data" else ENOENT
    if opcode == GETATTR:
        return struct.pack("=QII", 0, 0, 0) + attributes(node)
    if opcode in (OPEN, OPENDIR):
        return struct.pack("=QII", 1, 0, 0)
    return b"" if opcode in (RELEASE, FLUSH) else ENOSYS


def main() -> None:
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
    if ctypes.CDLL(None, use_errno=True).mount(b"silent", sys.argv[1].encode(), b"fuse.silent", 6, options.encode()) != 0:
        raise OSError(ctypes.get_errno(), "cannot mount")
    print("mounted", flush=True)
    while True:
        request = os.read(device, 1 << 17)
        _, opcode, unique, node, *_ = HEADER.unpack_from(request)
        if opcode in (FORGET, INTERRUPT):
            continue
        if opcode == READ or (opcode == LOOKUP and request[HEADER.size:] == b"lost\0"):
            open(sys.argv[1] + ".asked", "w").close()
            continue
        reply = answer(opcode, node, request[HEADER.size:])
        error, body = (-reply, b"") if isinstance(reply, int) else (0, reply)
        os.write(device, struct.pack("=IiQ", 16 + len(body), error, unique) + body)


if __name__ == "__main__":
    main()
