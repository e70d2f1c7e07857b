"""Start and end of simulated clusters, which leave nothing on this machine."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import HERE, PYTHON, Cluster, ClusterFailed, wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may make namespaces, mounts and network links")


@pytest.fixture
def own() -> Iterator[Cluster]:
    """A handle with a new name, for a cluster of the test's own; ends the cluster after the test."""
    handle = Cluster(f"own-{uuid.uuid4().hex[:8]}")
    try:
        yield handle
    finally:
        handle.down()


def script(name: str, *words: str, **options: object) -> subprocess.CompletedProcess:
    return subprocess.run([PYTHON, HERE / name, *words], capture_output=True, text=True, **options)


def traces(cluster: Cluster) -> dict[str, object]:
    """Returns all that this machine may show of a cluster."""
    return {
        "folder": cluster.folder.exists(),
        "processes": processes_with(str(cluster.folder)) + warden_of(cluster),
        "mounts": [line for line in Path("/proc/mounts").read_text().splitlines() if "hvd-cluster" in line],
        "links": [line for line in os.listdir("/sys/class/net") if line.startswith(("to-", "switch"))],
        "named namespaces": os.listdir("/run/netns") if Path("/run/netns").exists() else [],
    }


def processes_with(word: str) -> list[int]:
    """Returns the processes whose mount namespace has a mount with this word: those inside the cluster."""
    found = []
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        try:
            if word in Path(f"/proc/{pid}/mounts").read_text():
                found.append(pid)
        except OSError:
            continue
    return found


def warden_of(cluster: Cluster) -> list[int]:
    """Returns the warden's pid while it runs."""
    try:
        pid = int((cluster.folder / "warden").read_text())
    except (OSError, ValueError):
        return []
    return [pid]


NOTHING = {"folder": False, "processes": [], "mounts": [], "links": []}


def assert_no_trace(cluster: Cluster, before: dict[str, object]) -> None:
    wait_until(lambda: not cluster.folder.exists(), "the cluster's folder to be removed")
    after = traces(cluster)
    assert {**after, "named namespaces": None} == {**NOTHING, "named namespaces": None}
    assert after["named namespaces"] == before["named namespaces"]


def test_repeated_up_and_down_have_no_effect(own: Cluster) -> None:
    before = traces(own)
    said = script("up", "--name", own.name, "--hosts", "2")
    assert said.returncode == 0 and f"tests/cluster/run --name {own.name}" in said.stdout, said.stderr
    members = processes_with(str(own.folder))
    assert len(members) > 6
    again = script("up", "--name", own.name, "--hosts", "2")
    assert again.returncode == 0 and "up already" in again.stdout
    assert set(members) <= set(processes_with(str(own.folder))), "the second up has replaced the cluster"
    assert own.hosts == ["n1", "n2"]
    assert traces(own)["links"] == [] and traces(own)["mounts"] == [], "the cluster's links or mounts are visible on this machine"

    assert "is gone" in script("down", "--name", own.name).stdout
    assert "was not there" in script("down", "--name", own.name).stdout
    assert not any(Path(f"/proc/{pid}").exists() for pid in members)
    assert_no_trace(own, before)


def test_two_clusters_are_independent(cluster: Cluster, own: Cluster) -> None:
    own.up(hosts=2)
    assert sorted(own.output("srun", "-N2", "hostname").split()) == ["n1", "n2"]
    assert len(cluster.output("srun", "-N4", "hostname").split()) == 4
    own.output("touch", "/home/user/own")
    assert cluster.run("ls", "/home/user/own").returncode == 2
    own.kill("n1")
    assert cluster.output("ssh", "n1", "hostname") == "n1\n"
    own.down()
    assert cluster.output("ssh", "n2", "hostname") == "n2\n"


def test_two_checkouts_can_have_clusters_of_the_same_name(own: Cluster, tmp_path: Path) -> None:
    there = tmp_path / "tests/cluster"
    shutil.copytree(HERE, there)
    ups = [subprocess.Popen([PYTHON, folder / "up", "--name", own.name, "--hosts", "1"], stdout=subprocess.DEVNULL)
           for folder in (HERE, there)]
    assert [process.wait() for process in ups] == [0, 0]
    assert script("down", "--name", own.name).returncode == 0
    run = [PYTHON, there / "run", "--name", own.name, "--", "srun", "hostname"]
    assert subprocess.run(run, capture_output=True, text=True).stdout == "n1\n", "down of one checkout has ended the other's cluster"
    assert "is gone" in subprocess.run([PYTHON, there / "down", "--name", own.name], capture_output=True, text=True).stdout


def test_two_ups_at_once_make_one_cluster(own: Cluster) -> None:
    ups = [subprocess.Popen([PYTHON, HERE / "up", "--name", own.name, "--hosts", "1"], stdout=subprocess.PIPE, text=True)
           for _ in range(2)]
    said = [process.communicate()[0] for process in ups]
    assert [process.returncode for process in ups] == [0, 0]
    assert sum("is up already" in text for text in said) == 1


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("moment", ["warden", "control", "log/n1", "log/n1/slurmd.log"])
def test_an_interrupted_up_leaves_nothing(own: Cluster, moment: str, number: signal.Signals) -> None:
    before = traces(own)
    for _ in range(10):
        if interrupted_up(own, moment, number) != 0:
            break
        own.down()  # on a busy machine the cluster may be up before the signal comes
    else:
        pytest.fail("up always ended with 0")
    assert_no_trace(own, before)


def interrupted_up(cluster: Cluster, moment: str, number: signal.Signals) -> int:
    """Sends the signal to `up` once the path `moment` exists; returns its exit code."""
    process = subprocess.Popen([PYTHON, HERE / "up", "--name", cluster.name], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    with process:
        wait_until(lambda: process.poll() is not None or has_come_to(cluster, moment), f"up to make {moment}")
        process.send_signal(number)
    return process.returncode


def has_come_to(cluster: Cluster, moment: str) -> bool:
    if (cluster.folder / moment).exists():
        return True
    return any((Path(f"/proc/{pid}/root") / str(cluster.folder).lstrip("/") / "inside" / moment).exists()
               for pid in processes_with(str(cluster.folder)))


def test_a_cluster_ends_with_its_owner(own: Cluster) -> None:
    before = traces(own)
    with subprocess.Popen(["sleep", "3600"]) as owner:
        own.up(hosts=1, owner=owner.pid)
        assert own.output("srun", "hostname") == "n1\n"
        owner.kill()
    assert_no_trace(own, before)


@pytest.mark.parametrize("victims", ["warden", "keeper", "warden and keeper"])
def test_a_cluster_ends_with_its_warden_or_keeper(own: Cluster, victims: str) -> None:
    """The kill comes during a job. A new cluster of that name can start at once."""
    before = traces(own)
    own.up(hosts=1)
    members = processes_with(str(own.folder))
    [warden] = warden_of(own)
    [keeper] = map(int, Path(f"/proc/{warden}/task/{warden}/children").read_text().split())
    job = own.start("srun", "sh", "-c", "echo runs; exec sleep 7777", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert job.stdout.readline() == "runs\n"
    for name, pid in (("warden", warden), ("keeper", keeper)):
        if name in victims:
            os.kill(pid, signal.SIGKILL)
    own.up(hosts=1)
    job.communicate()
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in members), f"the end of {members}")
    assert own.output("srun", "hostname") == "n1\n", "the new cluster does not work"
    own.down()
    assert_no_trace(own, before)


def test_up_exits_with_77_without_rights_or_packages(own: Cluster) -> None:
    weak = subprocess.run(["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin", PYTHON, HERE / "up"],
                          capture_output=True, text=True)
    assert (weak.returncode, "lacks CAP_SYS_ADMIN" in weak.stderr) == (77, True), weak
    unprivileged = script("up", "--name", own.name, user="nobody")
    assert (unprivileged.returncode, "only root" in unprivileged.stderr) == (77, True), unprivileged
    # A private mount over the folder of slurmd's plugins hides one of the packages.
    hidden = subprocess.run(["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none "$1" && exec "$2" --name "$3"', "sh",
                             f"/usr/lib/{os.uname().machine}-linux-gnu/slurm-wlm", HERE / "up", own.name],
                            capture_output=True, text=True)
    assert (hidden.returncode, "slurm-wlm-basic-plugins" in hidden.stderr) == (77, True), hidden
    assert not own.folder.exists()


def test_a_bad_name_for_a_cluster_is_an_error(own: Cluster) -> None:
    assert "is no name" in script("up", "--name", "../x").stderr
    with pytest.raises(ClusterFailed):
        Cluster("")
