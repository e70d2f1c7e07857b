"""Attacks on a job by another user of the host. TESTS_OF_ROWS lists the tests of each row of docs/reference/security.md."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import HVDRUN, PYTHON, TIME_LIMIT, TOP, Running, Sandbox, all_pids, copy_for_others, environment_of, program, read_bytes, wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

CLIENT = program("pmix_client")


def listening_ports(pid: int) -> list[str]:
    """Returns the ports on which a process listens, and checks that it does so on 127.0.0.1 only."""
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
    wait_until(lambda: job.out.count(b"sum") == size or job.process.poll() is not None, "all ranks to use PMIx")
    assert job.process.poll() is None, job.wait()
    return job


def intrude(nspace: str, ports: list[str], user: int) -> bool:
    done = subprocess.run([program("pmix_intruder"), str(user), nspace, *ports], capture_output=True, text=True, timeout=TIME_LIMIT)
    assert done.returncode in (0, 1), done
    return done.returncode == 0 and "joined" in done.stdout


def public_names(sandbox: Sandbox) -> Iterator[str]:
    """Yields the names that any user of the host can read: of files and sockets, and arguments of processes."""
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
    assert ports, "the PMIx server does not listen"
    rank = environment_of(sandbox.ranks()[0])
    for folder in sandbox.shm.iterdir():  # any user can read its name, which has the job's id
        for guess in (folder.name, folder.name.rpartition("-")[0], f"hvd-{rank['HVD_JOB_ID']}-0", rank["HVD_JOB_ID"]):
            assert not intrude(guess, ports, 0), f"joined with {guess}, a part of the name {folder}"
    assert not intrude(rank["PMIX_NAMESPACE"], ports, 65534), "another user joined with the secret"
    assert job.process.poll() is None, job.wait()
    # The test can fail: with the secret, the job's own user gets in.
    assert intrude(rank["PMIX_NAMESPACE"], ports, 0)
    job.signal(signal.SIGTERM)
    job.wait()


def connect_silently_as_another_user(port: str) -> subprocess.Popen:
    """Starts a process of another user that connects to the port, sends nothing, and ends when its stdin closes."""
    code = "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); print('in', flush=True); sys.stdin.read()"
    process = subprocess.Popen(["/usr/bin/python3", "-c", code, port], stdin=subprocess.PIPE, stdout=subprocess.PIPE, user=65534, group=65534,
                               extra_groups=[])
    assert process.stdout and process.stdout.readline() == b"in\n", "another user could not connect"
    return process


def test_silent_connections_of_another_user_do_not_block_pmix(sandbox: Sandbox) -> None:
    start, done = sandbox.files / "start", sandbox.files / "done"
    job = sandbox.start("-np", 2, "sh", "-c", f"until [ -e {start} ]; do sleep 0.01; done; exec '{CLIENT}' --until {done}")
    wait_until(lambda: len(sandbox.ranks()) == 2, "both ranks to start")
    [port] = listening_ports(job.helper("hvdrun-agent"))
    with connect_silently_as_another_user(port):
        start.touch()
        wait_until(lambda: job.out.count(b"sum") == 2 or job.process.poll() is not None, "both ranks to use PMIx")
        with connect_silently_as_another_user(port):
            done.touch()
            job.wait().expect(0)


# With 33 ranks or more, libpmix keeps the ranks' data in files.
@pytest.mark.parametrize("size", [2, pytest.param(33, marks=[pytest.mark.measures, pytest.mark.slow])])
def test_no_name_that_others_can_read_has_the_pmix_namespace(sandbox: Sandbox, size: int) -> None:
    job = started(sandbox, size)
    nspace = environment_of(sandbox.ranks()[0])["PMIX_NAMESPACE"]
    secret = nspace.removeprefix("hvd-")
    assert len(secret) == 32, nspace
    names = list(public_names(sandbox))
    assert any(environment_of(sandbox.ranks()[0])["HVD_JOB_ID"] in name for name in names), "no name has the job's id"
    assert not [name for name in names if secret in name]
    job.signal(signal.SIGTERM)
    job.wait()


def test_a_job_on_one_host_listens_only_for_pmix(sandbox: Sandbox) -> None:
    done = sandbox.files / "done"
    job = sandbox.start("-np", 2, program("latecomer"), "--late", 1, "--until", done)
    wait_until(lambda: len(sandbox.ranks()) == 2 and b"PMIX_NAMESPACE" in read_bytes(f"/proc/{sandbox.ranks()[0]}/environ"),
               "both ranks to start")
    agent = job.helper("hvdrun-agent")
    assert listening_ports(agent)
    for pid in [job.pid, *job.descendants()]:
        assert pid == agent or not listening_ports(pid), f"{pid} listens"
    done.touch()
    job.wait().expect(0)


# Reads a process's memory by process_vm_readv(2). Arguments: PID ADDRESS. Prints the number of bytes and errno.
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

    def lists_descriptors(**user: int) -> bool:  # through which buffers without a file name can be opened
        listing = subprocess.run(["ls", f"/proc/{rank}/fd"], capture_output=True, cwd="/", timeout=TIME_LIMIT, check=False, **user)
        return listing.returncode == 0

    assert not lists_descriptors(user=65534, group=65534, extra_groups=[])
    assert lists_descriptors()
    job.signal(signal.SIGTERM)
    job.wait()


# Accepts connections on a listening descriptor and relays them to a port. Prints the relayed bytes when its stdin closes.
RELAY = """
import select, socket, sys
listener = socket.socket(fileno=int(sys.argv[1]))
peers, relayed = {}, b""
while True:
    ready, _, _ = select.select([0, listener, *peers], [], [])
    if 0 in ready:
        break
    for end in ready:
        if end is listener:
            client, _ = listener.accept()
            try:
                server = socket.create_connection(("127.0.0.1", int(sys.argv[2])), 1)
            except OSError:
                client.close()
                continue
            peers[client], peers[server] = server, client
        elif end in peers:
            try:
                data = end.recv(65536)
                peers[end].sendall(data)
            except OSError:
                data = b""
            relayed += data
            if not data:
                other = peers.pop(end)
                del peers[other]
                end.close()
                other.close()
sys.stdout.buffer.write(relayed)
"""


@contextlib.contextmanager
def listener_with_free_next_port() -> Iterator[tuple[socket.socket, int]]:
    """Yields a listening socket and its port. The next port is reserved: the kernel gives it only to a process that names it."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as next_one:
            port = listener.getsockname()[1]
            next_one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                next_one.bind(("", port + 1))
            except (OSError, OverflowError):
                continue
            yield listener, port
            return


def run_beside_a_relay(sandbox: Sandbox) -> bytes:
    """Runs a job without PMIx whose first rendezvous port another user's relay holds; rank 0 takes the next port.

    Returns the bytes that went through the relay."""
    with listener_with_free_next_port() as (listener, port):
        relay = subprocess.Popen(["/usr/bin/python3", "-c", RELAY, str(listener.fileno()), str(port + 1)],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, user=65534, group=65534,
                                 extra_groups=[], pass_fds=[listener.fileno()])
        try:
            sandbox.run("-np", 3, "--pmix", "off", "-x", "MASTER_ADDR=127.0.0.1", "-x",
                        f"HVD_PORT={port}", program("../examples/hello")).expect(0)
            return relay.communicate(timeout=TIME_LIMIT)[0]
        finally:
            relay.kill()
            relay.wait()


def test_a_relay_of_another_user_gets_no_data_of_ranks(sandbox: Sandbox) -> None:
    """A rank that finds rank 0 on the next port at once skips the relay, so this may need several jobs."""
    relayed = b""
    for _ in range(20):
        relayed = run_beside_a_relay(sandbox)
        if b"hvdhail" in relayed:
            break
    assert b"hvdhail" in relayed, "no rank connected to the relay"
    # Proofs are random bytes, which may contain a name of two letters by chance.
    secrets = [name for name in (b"/hvd-", socket.gethostname().encode()) if len(name) >= 5]
    assert not [name for name in secrets if name in relayed], relayed
    assert len(relayed) < 3 * 2 * 65 * 400, "more than handshakes went through the relay"


def test_each_attempt_uses_folders_with_new_names(sandbox: Sandbox) -> None:
    """Another user could make folders with the first attempt's names once these are removed."""
    done = sandbox.run("-np", 2, "--max-restarts", 1, "--grace", "0.3", "--label", "none", "sh", "-c",
                       "echo $HVD_SHM_DIR $HVD_JOB_ID; exit $((1 - HVD_RESTART_COUNT))").expect(0)
    folders = {line.split()[0] for line in done.out_lines}
    ids = {line.split()[1] for line in done.out_lines}
    assert len(folders) == 2 and len(ids) == 1, done


@pytest.mark.parametrize("pmix", ["on", "off"])
def test_files_of_a_job_are_private_whatever_the_umask(sandbox: Sandbox, pmix: str) -> None:
    """Checks temporary folders and shared memory with umask 0."""
    job = sandbox.start("-c", 'umask 0; exec "$@"', "sh", HVDRUN, "-np", 2, "--pmix", pmix, "--grace", "0.3", "sh", "-c",
                        f"{program('latecomer')} 2>&1; {program('../examples/hello')}; echo over; sleep 1000",
                        tool="/bin/sh")
    wait_until(lambda: job.out.count(b"over") == 2 or job.process.poll() is not None, "both ranks to finish their collectives")
    assert job.process.poll() is None, job.wait()
    found = {path: oct(path.lstat().st_mode) for place in (sandbox.tmp, sandbox.shm) for path in place.rglob("*")}
    assert any(path.parent == sandbox.shm for path in found), "the job has no folder in shared memory"
    top = [path for path in found if path.parent in (sandbox.tmp, sandbox.shm)]
    assert not [f"{path} {found[path]}" for path in top if int(found[path], 8) & 0o077]
    job.signal(signal.SIGTERM)
    job.wait()


# Asks at a port of this host, as an HTTP client. Arguments: METHOD PORT. Prints the answer's status and first word.
ASK = """
import http.client, sys
connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[2]), timeout=60)
connection.request(sys.argv[1], "/metrics", "end" if sys.argv[1] == "POST" else None)
answer = connection.getresponse()
print(answer.status, answer.read().decode().split()[0])
"""


def test_other_users_of_the_host_can_only_read_the_metrics_at_a_port(sandbox: Sandbox) -> None:
    job = sandbox.start("-np", 1, "--metrics", ":0", "--grace", "0.3", "sleep", "1000")
    job.wait_for(b"/metrics\n", stream="err")
    [port] = listening_ports(job.pid)
    assert f"http://127.0.0.1:{port}/metrics" in job.err.decode()

    def ask(method: str) -> str:
        return subprocess.check_output(["/usr/bin/python3", "-c", ASK, method, port], user=65534, group=65534, extra_groups=[],
                                       text=True, cwd="/", timeout=TIME_LIMIT)

    assert ask("GET") == "200 #\n"
    assert ask("POST") == "405 only\n"
    assert job.process.poll() is None, job.wait()
    job.signal(signal.SIGTERM)
    job.wait()


@pytest.mark.parametrize("umask", ["077", "022"])
def test_the_umask_says_who_may_read_the_metrics_in_a_file(sandbox: Sandbox, umask: str) -> None:
    file = sandbox.files / "train.prom"
    job = sandbox.start("-c", f'umask {umask}; exec "$@"', "sh", HVDRUN, "-np", 1, "--metrics", file, "--grace", "0.3", "sleep", "1000",
                        tool="/bin/sh")
    wait_until(file.exists, "the file")
    assert file.stat().st_mode & 0o777 == 0o666 & ~int(umask, 8)
    job.signal(signal.SIGTERM)
    job.wait()


def test_a_job_is_looked_into_though_another_user_has_taken_its_folder(sandbox: Sandbox) -> None:
    user = 40000 + os.getpid() % 20000
    folder = Path(f"/tmp/hvdrun-{user}")
    folder.mkdir(mode=0o777)
    with copy_for_others(HVDRUN) as hvdrun, contextlib.ExitStack() as at_end:
        at_end.callback(folder.rmdir)
        at_end.callback(lambda: [shutil.rmtree(path) for path in Path("/tmp").glob(f"hvdrun-{user}-*")])
        at_end.callback(sandbox.kill_all)
        as_user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "env", "-u", "TMPDIR", "HOME=/", str(hvdrun)]
        job = sandbox.start(*as_user[1:], "-np", 1, "sleep", "1000", tool=as_user[0], cwd=Path("/"))
        wait_until(sandbox.ranks, "the rank")
        asked = subprocess.run([*as_user, "why", str(job.pid)], capture_output=True, text=True, cwd="/", timeout=TIME_LIMIT)
        assert asked.returncode == 0 and "rank 0" in asked.stdout, asked
        job.signal(signal.SIGTERM)
        job.wait().expect(143)
        assert not list(Path("/tmp").glob(f"hvdrun-{user}-*"))


# The tests of each row of the page's table.
TESTS_OF_ROWS = {
    "the link between hvdrun and its agent on its host":
        "test_a_job_on_one_host_listens_only_for_pmix",
    "links to agents over ssh":
        "test_an_unknown_host_key_needs_ssh_accept_new test_a_revoked_host_key_is_refused test_all_known_hosts_files_are_checked",
    "links to agents under srun":
        "RefusesAgentsWithoutTheKey DoesNotConnectToALauncherWithAnotherKey RefusesAPeerWithoutAKey "
        "KeepsAnAgentWithTheKeyWhenOthersExceedTheLimit "
        "test_agents_connect_despite_hundreds_of_foreign_connections test_only_the_launcher_listens_and_only_until_all_agents_connect",
    "PMIx server of each host, on 127.0.0.1":
        "test_another_user_cannot_join_through_pmix test_no_name_that_others_can_read_has_the_pmix_namespace "
        "test_silent_connections_of_another_user_do_not_block_pmix",
    "`MASTER_PORT`":
        "AreReservedButTheProgramCanListenOnThem",
    "libhvd's rendezvous without PMIx, during `hvd_init`":
        "BothSidesProveTheSecret AConnectionThroughAnotherPortIsRefused DetectsDataThatARelayHasChanged "
        "RepeatedMissingAndReflectedOnesAreRefused KeepsAClientWithTheSecretWhenStrangersTakeAllPlaces "
        "test_a_relay_of_another_user_gets_no_data_of_ranks IsReadableForARelayOnlyWithoutTls",
    "libhvd's ports between hosts, during `hvd_init`":
        "RefusesAProcessWithoutTheSecret ConnectsAllPairsOverTls",
    "libhvd's connections between hosts":
        "test_packets_show_the_data_of_ranks_only_without_tls RefusesAPeerWithAnotherKey "
        "RefusesAPeerWithoutAKey DetectsChangedData ReportsChangedData",
    "what NCCL and MPI open":
        "IsRefusedForTheMpiTransport EncryptedDataGoesThroughHostMemory",
    "`$TMPDIR/hvd-ID-N-tmp`, `/dev/shm/hvd-ID-N` (mode 0700)":
        "test_files_of_a_job_are_private_whatever_the_umask test_each_attempt_uses_folders_with_new_names "
        "ArePrivateAndRemovedWithTheirContents",
    "hvdrun's socket for `hvdrun top` and others, in `$XDG_RUNTIME_DIR/hvdrun` or `/tmp/hvdrun-UID` (mode 0700)":
        "TheFolderIsPrivateAndTheSocketIsRemoved AFolderThatOthersMayEnterIsNotUsed "
        "test_a_job_is_looked_into_though_another_user_has_taken_its_folder",
    "`--metrics :PORT`, on 127.0.0.1: the numbers of `hvdrun top`, to read":
        "test_other_users_of_the_host_can_only_read_the_metrics_at_a_port",
    "`--metrics FILE`":
        "test_the_umask_says_who_may_read_the_metrics_in_a_file DoesNotWriteThroughALink",
    "shared memory of libhvd without hvdrun, in `/dev/shm` (mode 0600)":
        "IsAPrivateFileUntilItsNameIsRemoved OfAnotherJobOrSizeIsRefused",
    "buffers that ranks share (`hvd_alloc`), in memory without a file name":
        "test_another_user_cannot_read_a_ranks_memory AFileOfAnotherProcessIsNotMapped",
    "memory of a rank, for large collectives on its host (`process_vm_readv`)":
        "test_another_user_cannot_read_a_ranks_memory RefusesAProcessWithoutTheNumber",
    "environment of the ranks, with both secrets":
        "test_no_name_that_others_can_read_has_the_pmix_namespace",
    "`--report`, `--output-filename`, logs, checkpoints":
        "DoesNotWriteThroughALink DoesNotFollowASymbolicLink",
}


def test_every_row_of_the_security_page_has_tests() -> None:
    page = (TOP / "docs/reference/security.md").read_text()
    rows = [line.split(" | ")[0].removeprefix("| ") for line in page.splitlines()
            if line.startswith("| ") and not line.startswith("| what |")]
    assert rows == list(TESTS_OF_ROWS)
    tests = "".join(path.read_text() for pattern in ("*.py", "*.cpp") for path in (TOP / "tests").rglob(pattern))
    assert not [name for names in TESTS_OF_ROWS.values() for name in names.split()
                if not re.search(rf"(def |, ){name}\b", tests)]
