"""What another user of the host can do to a job, as docs/reference/security.md says; TESTS_OF_ROWS names the tests of it."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import HVDRUN, PYTHON, TIME_LIMIT, TOP, Running, Sandbox, all_pids, environment_of, program, read_bytes, wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

CLIENT = program("pmix_client")


def listening_ports(pid: int) -> list[str]:
    """The ports of 127.0.0.1 that a process listens on."""
    inodes = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        target = os.readlink(f"/proc/{pid}/fd/{name}")
        if target.startswith("socket:["):
            inodes.add(target[len("socket:["):-1])
    ports = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                address, port = fields[1].split(":")
                assert address == f"{int.from_bytes(socket.inet_aton('127.0.0.1'), 'little'):08X}", line
                ports.append(str(int(port, 16)))
    return ports


def started(sandbox: Sandbox, size: int) -> Running:
    job = sandbox.start("-np", size, "--grace", "0.3", CLIENT, "--stay")
    wait_until(lambda: job.out.count(b"sum") == size or job.process.poll() is not None, "all ranks have used PMIx")
    assert job.process.poll() is None, job.wait()
    return job


def intrude(nspace: str, ports: list[str], user: int) -> bool:
    done = subprocess.run([program("pmix_intruder"), str(user), nspace, *ports], capture_output=True, text=True, timeout=TIME_LIMIT)
    assert done.returncode in (0, 1), done
    return done.returncode == 0 and "joined" in done.stdout


def public_names(sandbox: Sandbox) -> Iterator[str]:
    """Whatever any user of the host can read of names: of files, arguments of processes, sockets."""
    for place in (sandbox.tmp, sandbox.shm):
        for folder, folders, files in os.walk(place):
            yield from (os.path.join(folder, name) for name in (*folders, *files))
            folders[:] = [name for name in folders if os.stat(os.path.join(folder, name)).st_mode & 0o077]
    for pid in all_pids():
        yield read_bytes(f"/proc/{pid}/cmdline").decode(errors="replace")
    yield Path("/proc/net/unix").read_text()


def test_another_user_cannot_join_through_pmix(sandbox: Sandbox) -> None:
    job = started(sandbox, 2)
    ports = listening_ports(job.helper("hvdrun-agent"))
    assert ports, "the PMIx server listens nowhere"
    rank = environment_of(sandbox.ranks()[0])
    for folder in sandbox.shm.iterdir():  # its name holds the job's id, for all to see
        for guess in (folder.name, folder.name.rpartition("-")[0], f"hvd-{rank['HVD_JOB_ID']}-0", rank["HVD_JOB_ID"]):
            assert not intrude(guess, ports, 0), f"joined by what stands in the name {folder}"
    assert not intrude(rank["PMIX_NAMESPACE"], ports, 65534), "another user joined, with the secret"
    assert job.process.poll() is None, job.wait()
    # The intruder is one: the job's user gets in with the secret.
    assert intrude(rank["PMIX_NAMESPACE"], ports, 0)
    job.signal(signal.SIGTERM)
    job.wait()


def connect_as_nobody(port: str) -> subprocess.Popen:
    """A process of another user that has connected to the port, and says nothing. It ends with its stdin."""
    code = "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); print('in', flush=True); sys.stdin.read()"
    process = subprocess.Popen(["/usr/bin/python3", "-c", code, port], stdin=subprocess.PIPE, stdout=subprocess.PIPE, user=65534, group=65534,
                               extra_groups=[])
    assert process.stdout and process.stdout.readline() == b"in\n", "it could not connect"
    return process


def test_silent_connections_of_another_user_keep_no_rank_from_pmix(sandbox: Sandbox) -> None:
    start, done = sandbox.files / "start", sandbox.files / "done"
    job = sandbox.start("-np", 2, "sh", "-c", f"until [ -e {start} ]; do sleep 0.01; done; exec '{CLIENT}' --until {done}")
    wait_until(lambda: len(sandbox.ranks()) == 2, "both ranks run")
    [port] = listening_ports(job.helper("hvdrun-agent"))
    with connect_as_nobody(port):
        start.touch()
        wait_until(lambda: job.out.count(b"sum") == 2 or job.process.poll() is not None, "both ranks have used PMIx")
        with connect_as_nobody(port):
            done.touch()
            job.wait().expect(0)


# From 33 ranks on, libpmix keeps what ranks have put in files.
@pytest.mark.parametrize("size", [2, pytest.param(33, marks=[pytest.mark.measures, pytest.mark.slow])])
def test_the_pmix_namespace_stands_in_no_public_name(sandbox: Sandbox, size: int) -> None:
    job = started(sandbox, size)
    nspace = environment_of(sandbox.ranks()[0])["PMIX_NAMESPACE"]
    secret = nspace.removeprefix("hvd-")
    assert len(secret) == 32, nspace
    names = list(public_names(sandbox))
    assert any(environment_of(sandbox.ranks()[0])["HVD_JOB_ID"] in name for name in names), "looked in the wrong place"
    assert not [name for name in names if secret in name]
    job.signal(signal.SIGTERM)
    job.wait()


def test_a_job_on_one_host_listens_for_pmix_only(sandbox: Sandbox) -> None:
    done = sandbox.files / "done"
    job = sandbox.start("-np", 2, program("latecomer"), "--late", 1, "--until", done)
    wait_until(lambda: len(sandbox.ranks()) == 2 and b"PMIX_NAMESPACE" in read_bytes(f"/proc/{sandbox.ranks()[0]}/environ"),
               "both ranks run")
    agent = job.helper("hvdrun-agent")
    assert listening_ports(agent)
    for pid in [job.pid, *job.descendants()]:
        assert pid == agent or not listening_ports(pid), f"{pid} listens"
    done.touch()
    job.wait().expect(0)


# Prints how many bytes process_vm_readv(2) reads at an address of a process, and errno.
READ_MEMORY = """
import ctypes, sys
class Piece(ctypes.Structure):
    _fields_ = [("address", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]
to = ctypes.create_string_buffer(16)
own, theirs = Piece(ctypes.addressof(to), 16), Piece(int(sys.argv[2], 16), 16)
read = ctypes.CDLL(None, use_errno=True).process_vm_readv
print(read(int(sys.argv[1]), ctypes.byref(own), 1, ctypes.byref(theirs), 1, 0), ctypes.get_errno())
"""


def test_another_user_cannot_read_a_ranks_memory(sandbox: Sandbox) -> None:
    job = started(sandbox, 2)
    rank = sandbox.ranks()[0]
    begin = Path(f"/proc/{rank}/maps").read_text().partition("-")[0]

    def read_by(**user: int) -> str:
        return subprocess.check_output([PYTHON, "-c", READ_MEMORY, str(rank), begin], text=True, cwd="/", timeout=TIME_LIMIT, **user)

    assert read_by(user=65534, group=65534, extra_groups=[]) == f"-1 {errno.EPERM}\n"
    assert read_by() == "16 0\n"
    job.signal(signal.SIGTERM)
    job.wait()


# Takes guests at the socket of a number and relays them to a port; prints what it has carried when its input ends.
RELAY = """
import select, socket, sys
door = socket.socket(fileno=int(sys.argv[1]))
ways, carried = {}, b""
while True:
    ready, _, _ = select.select([0, door, *ways], [], [])
    if 0 in ready:
        break
    for end in ready:
        if end is door:
            guest, _ = door.accept()
            try:
                host = socket.create_connection(("127.0.0.1", int(sys.argv[2])), 1)
            except OSError:
                guest.close()
                continue
            ways[guest], ways[host] = host, guest
        elif end in ways:
            try:
                data = end.recv(65536)
                ways[end].sendall(data)
            except OSError:
                data = b""
            carried += data
            if not data:
                other = ways.pop(end)
                del ways[other]
                end.close()
                other.close()
sys.stdout.buffer.write(carried)
"""


@contextlib.contextmanager
def two_ports() -> Iterator[tuple[socket.socket, int]]:
    """A socket that listens, and its port. Nobody else is given the next port, but who asks for it may have it."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as door, socket.socket() as next_one:
            port = door.getsockname()[1]
            next_one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                next_one.bind(("", port + 1))
            except (OSError, OverflowError):
                continue
            yield door, port
            return


def run_beside_a_relay(sandbox: Sandbox) -> bytes:
    """Without PMIx, with the first of the rendezvous' ports taken: rank 0 listens on the next one. Returns what was relayed."""
    with two_ports() as (door, port):
        relay = subprocess.Popen(["/usr/bin/python3", "-c", RELAY, str(door.fileno()), str(port + 1)],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, user=65534, group=65534,
                                 extra_groups=[], pass_fds=[door.fileno()])
        try:
            sandbox.run("-np", 3, "--pmix", "off", "-x", "MASTER_ADDR=127.0.0.1", "-x",
                        f"HVD_PORT={port}", program("../examples/hello")).expect(0)
            return relay.communicate(timeout=TIME_LIMIT)[0]
        finally:
            relay.kill()
            relay.wait()


def test_another_user_cannot_relay_what_ranks_exchange(sandbox: Sandbox) -> None:
    """A rank that finds rank 0 at the next port at once does not wait for the relay, so this may need several jobs."""
    carried = b""
    for _ in range(20):
        carried = run_beside_a_relay(sandbox)
        if b"hvdhail" in carried:
            break
    assert b"hvdhail" in carried, "no rank has tried the relay's port"
    # Proofs are random bytes: a name of two letters may be among them.
    secrets = [name for name in (b"/hvd-", socket.gethostname().encode()) if len(name) >= 5]
    assert not [name for name in secrets if name in carried], carried
    assert len(carried) < 3 * 2 * 65 * 400, "more than handshakes"


def test_a_restart_has_folders_of_new_names(sandbox: Sandbox) -> None:
    """Another user could take the names of the first try's, once these are gone."""
    done = sandbox.run("-np", 2, "--max-restarts", 1, "--grace", "0.3", "--label", "none", "sh", "-c",
                       "echo $HVD_SHM_DIR $HVD_JOB_ID; exit $((1 - HVD_RESTART_COUNT))").expect(0)
    folders = {line.split()[0] for line in done.out_lines}
    ids = {line.split()[1] for line in done.out_lines}
    assert len(folders) == 2 and len(ids) == 1, done


@pytest.mark.parametrize("pmix", ["on", "off"])
def test_what_a_job_leaves_open_to_others(sandbox: Sandbox, pmix: str) -> None:
    """Whatever the user's umask: nothing in the temporary folders and in memory is for others to read or change."""
    job = sandbox.start("-c", 'umask 0; exec "$@"', "sh", HVDRUN, "-np", 2, "--pmix", pmix, "--grace", "0.3", "sh", "-c",
                        f"{program('latecomer')} 2>&1; {program('../examples/hello')}; echo over; sleep 1000",
                        tool="/bin/sh")
    wait_until(lambda: job.out.count(b"over") == 2 or job.process.poll() is not None, "both ranks have met")
    assert job.process.poll() is None, job.wait()
    found = {path: oct(path.lstat().st_mode) for place in (sandbox.tmp, sandbox.shm) for path in place.rglob("*")}
    assert any(path.parent == sandbox.shm for path in found), "nothing was found at all"
    top = [path for path in found if path.parent in (sandbox.tmp, sandbox.shm)]
    assert not [f"{path} {found[path]}" for path in top if int(found[path], 8) & 0o077]
    job.signal(signal.SIGTERM)
    job.wait()


# The tests of what each row of the page's table says.
TESTS_OF_ROWS = {
    "the link between hvdrun and its agent on its host":
        "test_a_job_on_one_host_listens_for_pmix_only",
    "links to agents over ssh":
        "test_a_key_that_is_not_known test_a_revoked_key_is_refused_as_by_ssh test_every_file_of_known_hosts_counts",
    "links to agents under srun":
        "RefusesAnotherKey RefusesAClientWithoutAKey RefusesAServerWithoutAKey WhoHasTheKeyIsNotPushedOut "
        "test_a_crowd_at_the_door_changes_nothing test_agents_listen_to_nobody_and_the_launcher_to_one_address",
    "PMIx server of each host, on 127.0.0.1":
        "test_another_user_cannot_join_through_pmix test_the_pmix_namespace_stands_in_no_public_name "
        "test_silent_connections_of_another_user_keep_no_rank_from_pmix",
    "`MASTER_PORT`":
        "AreKeptButCanBeListenedOnByTheProgram",
    "libhvd's rendezvous without PMIx, during `hvd_init`":
        "BothSidesProveTheSecret AConnectionThroughAnotherPortIsRefused DetectsDataThatARelayHasChanged "
        "RepeatedMissingAndReflectedOnesAreRefused KeepsAClientWithTheSecretWhenStrangersTakeAllPlaces "
        "test_another_user_cannot_relay_what_ranks_exchange IsReadableForARelayOnlyWithoutTls",
    "libhvd's ports between hosts, during `hvd_init`":
        "RefusesAProcessWithoutTheSecret ConnectsAllPairsOverTls",
    "libhvd's connections between hosts":
        "test_what_ranks_send_is_on_the_wire_in_the_clear_only RefusesAPeerWithAnotherKey "
        "RefusesAPeerWithoutAKey DetectsChangedData ReportsChangedData",
    "what NCCL and MPI open":
        "IsRefusedForTheMpiTransport EncryptedDataGoesThroughHostMemory",
    "`$TMPDIR/hvd-ID-N`, `/dev/shm/hvd-ID-N` (mode 0700)":
        "test_what_a_job_leaves_open_to_others test_a_restart_has_folders_of_new_names ArePrivateAndGoWithAllTheyHold",
    "shared memory of libhvd without hvdrun, in `/dev/shm` (mode 0600)":
        "IsAPrivateFileUntilItsNameIsRemoved OfAnotherJobOrSizeIsRefused",
    "memory of a rank, for large collectives on its host (`process_vm_readv`)":
        "test_another_user_cannot_read_a_ranks_memory RefusesAProcessWithoutTheNumber",
    "environment of the ranks, with both secrets":
        "test_the_pmix_namespace_stands_in_no_public_name",
    "`--report`, `--output-filename`, logs, checkpoints":
        "DoesNotWriteThroughALink DoesNotFollowASymbolicLink",
}


def test_every_row_of_the_page_on_security_has_tests() -> None:
    page = (TOP / "docs/reference/security.md").read_text()
    rows = [line.split(" | ")[0].removeprefix("| ") for line in page.splitlines()
            if line.startswith("| ") and not line.startswith("| what |")]
    assert rows == list(TESTS_OF_ROWS)
    tests = "".join(path.read_text() for pattern in ("*.py", "*.cpp") for path in (TOP / "tests").rglob(pattern))
    assert not [name for names in TESTS_OF_ROWS.values() for name in names.split()
                if not re.search(rf"(def |, ){name}\b", tests)]
