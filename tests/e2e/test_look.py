"""hvdrun-look: what a process does, read from outside, and that the process does not notice it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from harness import BUILD, PYTHON, SANITIZED, Running, Sandbox, alive, copy_for_others, process_state, program, wait_until

LOOK = BUILD / "bin/hvdrun-look"
LOOKS = [10, pytest.param(100, marks=pytest.mark.slow)]  # at a process that must not notice them
LONGEST_PAUSE = 50  # milliseconds
PYTHONS = {path.parent.parent.name.rpartition(".")[0]: str(path) for path in sorted(Path.home().glob(".pyenv/versions/3.*/bin/python3"))
           if int(path.parent.parent.name.split(".")[1]) >= 9}
PYTHON_ARCHIVE = Path(sysconfig.get_config_var("LIBPL") or "/", sysconfig.get_config_var("LIBRARY") or "none")

# Waits in a call that the interpreter makes from C (sorted), in a second thread, and computes in a third.
SCRIPT = """\
import threading
import time

class Loader:
    def read(self, path):
        return sorted([path], key=self.wait)

    def wait(self, path):
        time.sleep(1000)

def compute():
    while True:
        pass

def drück():
    with lock:
        pass

lock = threading.Lock()
lock.acquire()
threading.Thread(target=compute, daemon=True).start()
threading.Thread(target=drück, daemon=True).start()
print("ready", flush=True)
Loader().read("data")
"""


def look(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([LOOK, *map(str, words)], capture_output=True, text=True, timeout=60)


def look_at(process: Running, *words: object) -> dict:
    done = look(*words, process.pid)
    assert done.returncode == 0 and not done.stderr, done
    [line] = done.stdout.splitlines()
    return json.loads(line)


def functions(thread: dict, language: str = "") -> list[str]:
    return [frame["function"] for frame in thread["stack"] if language in ("", frame["language"])]


def places(thread: dict, file: Path) -> list[tuple[str, int]]:
    """The functions of a Python file in a thread's stack, with their lines."""
    return [(frame["function"].rpartition(".")[2], frame["line"]) for frame in thread["stack"] if frame.get("file") == str(file)]


def victim(sandbox: Sandbox, *mode: object) -> Running:
    """Starts look_victim, and returns when it does what the mode says."""
    process = sandbox.start(*mode, tool=program("look_victim"), stdin=subprocess.PIPE)
    process.wait_for(b"ready")
    return process


def script(sandbox: Sandbox, python: str, text: str = SCRIPT) -> tuple[Running, Path]:
    file = sandbox.files / "train.py"
    file.write_text(text)
    process = sandbox.start(file, tool=python, stdin=subprocess.PIPE)
    process.wait_for(b"ready")
    return process, file


def end(process: Running) -> None:
    """Kills the process. Its children die with it, a moment later."""
    pids = process.descendants()
    process.process.kill()
    process.wait()
    wait_until(lambda: not any(map(alive, pids)), "the children to end")


@pytest.mark.parametrize("version", ["system", *PYTHONS])
def test_python_threads_have_their_functions_and_lines(version: str, sandbox: Sandbox) -> None:
    process, file = script(sandbox, PYTHON if version == "system" else PYTHONS[version])

    def found() -> dict[str, dict]:
        """The threads by their innermost function of the script."""
        seen = look_at(process)
        assert not seen["problems"] and seen["pause_ms"] > 0, seen
        return {places(thread, file)[0][0]: thread for thread in seen["threads"] if places(thread, file)}

    threads: dict[str, dict] = {}

    def all_are_there() -> bool:
        """Each has begun to wait or to compute, so that no line is of a thread that starts."""
        threads.update(found())
        return ({"wait", "compute", "drück"} <= threads.keys() and threads["drück"].get("system_call") == "futex"
                and threads["compute"].get("holds_gil", False))

    wait_until(all_are_there, "the threads to run")
    lines = {name: places(thread, file) for name, thread in threads.items()}
    assert lines["wait"] == [("wait", 9), ("read", 6), ("<module>", 24)], lines
    assert lines["compute"] in ([("compute", 12)], [("compute", 13)]), lines
    assert lines["drück"] == [("drück", 16)], lines
    assert threads["wait"]["tid"] == process.pid
    end(process)


def test_an_interpreter_without_dynamic_symbols_is_found_by_its_section(sandbox: Sandbox) -> None:
    program_text = Path(PYTHON).read_bytes()
    if b"\0_PyRuntime\0" not in program_text:
        pytest.skip("this Python is in a library")
    python = sandbox.files / "python3"
    python.write_bytes(program_text.replace(b"\0_PyRuntime\0", b"\0_PyRuntimX\0").replace(b"\0Py_Version\0", b"\0Py_VersioX\0"))
    python.chmod(0o755)
    file = sandbox.files / "train.py"
    file.write_text(SCRIPT)
    process = sandbox.start(file, tool=python, env={"PYTHONHOME": "/usr"})
    process.wait_for(b"ready")
    wait_until(lambda: places(look_at(process)["threads"][0], file)[:1] == [("wait", 9)], "the main thread to wait")
    end(process)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gcc") is None or not PYTHON_ARCHIVE.exists(), reason="needs gcc and libpython3-dev")
@pytest.mark.parametrize("options", [(), ("-s",)], ids=["with symbols", "stripped"])
def test_a_statically_linked_python_is_read(options: tuple[str, ...], sandbox: Sandbox) -> None:
    source = sandbox.files / "python.c"
    source.write_text("#include <Python.h>\nint main(int count, char** words) { return Py_BytesMain(count, words); }\n")
    paths = sysconfig.get_paths()
    libraries = (*sysconfig.get_config_var("LIBS").split(), "-lm", "-lz", "-lexpat", "-lpthread")
    subprocess.run(["gcc", "-w", "-static", *options, source, f"-I{paths['include']}", PYTHON_ARCHIVE, *libraries, "-o", "python"],
                   cwd=sandbox.files, check=True, stderr=subprocess.PIPE)
    file = sandbox.files / "train.py"
    file.write_text("import time\ndef wait():\n    time.sleep(1000)\nprint('ready', flush=True)\nwait()\n")
    process = sandbox.start(file, tool=sandbox.files / "python", env={"PYTHONHOME": "/usr"})
    process.wait_for(b"ready")
    wait_until(lambda: places(look_at(process)["threads"][0], file) == [("wait", 3), ("<module>", 5)], "the main thread to wait")
    end(process)


def test_python_and_native_frames_are_in_their_order(sandbox: Sandbox) -> None:
    process, file = script(sandbox, PYTHON)
    wait_until(lambda: places(look_at(process)["threads"][0], file)[:1] == [("wait", 9)], "the main thread to wait")
    main = look_at(process)["threads"][0]
    assert main["merged"]
    # Python's sorted() lies between the two functions that it joins.
    names = [name.rpartition(".")[2] for name in functions(main)]
    assert names.index("wait") < names.index("read"), names
    between = main["stack"][names.index("wait") + 1: names.index("read")]
    assert between and all(frame["language"] == "native" for frame in between), names
    assert any("nanosleep" in name for name in names[:names.index("wait")]), names
    cut = look_at(process, "--depth", 2)["threads"][0]
    assert places(cut, file) == [("wait", 9), ("read", 6)] and "left out" in cut["problem"], cut
    text = look("--text", process.pid).stdout
    assert f"Loader.wait ({file}:9)\n    Loader.read ({file}:6)\n" in text, text
    end(process)


def test_a_sleep_keeps_its_name_when_a_look_has_interrupted_it(sandbox: Sandbox) -> None:
    """It continues as restart_syscall."""
    process = sandbox.start(1000, tool="sleep")
    wait_until(lambda: look_at(process)["threads"][0].get("system_call") == "clock_nanosleep", "the sleep")
    for _ in range(2):
        assert look_at(process)["threads"][0]["system_call"] == "clock_nanosleep"
    end(process)


def test_a_loop_in_c_is_named(sandbox: Sandbox) -> None:
    process = victim(sandbox, "loop")
    main = look_at(process)["threads"][0]
    assert "loop_in_c" in functions(main) and main["state"] == "R", main
    end(process)


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
@pytest.mark.parametrize("level", ["-O1", "-O2"])
def test_a_frame_in_an_inlined_header_has_the_users_line(level: str, sandbox: Sandbox) -> None:
    source = sandbox.files / "spin.cpp"
    source.write_text("""#include <atomic>
#include <cstdio>
std::atomic<long> word;
int main() {
  std::puts("ready");
  std::fflush(stdout);
  while (word.load() == 0) word.fetch_sub(0);
}
""")
    subprocess.run(["g++", "-std=c++17", "-g", level, "-o", "spin", source], cwd=sandbox.files, check=True)
    process = sandbox.start(tool=sandbox.files / "spin")
    process.wait_for(b"ready")
    seen = look_at(process)
    frames = [(frame["function"], frame.get("file"), frame.get("line")) for frame in seen["threads"][0]["stack"]]
    assert ("main", str(source), 7) in frames, frames
    end(process)


def test_a_mutex_and_its_holder_are_named(sandbox: Sandbox) -> None:
    process = victim(sandbox, "mutex")
    [waiter] = [thread for thread in look_at(process)["threads"] if thread["name"] == "waiter"]
    assert waiter["system_call"] == "futex"
    assert waiter["waits_for"] == f"a mutex that thread {process.pid} holds"
    assert "wait_for_mutex" in functions(waiter)
    end(process)


def test_the_thread_whose_end_is_awaited_is_named(sandbox: Sandbox) -> None:
    process = victim(sandbox, "join")

    def is_named() -> bool:
        threads = look_at(process)["threads"]
        sleepers = [thread["tid"] for thread in threads if "sleeper" in functions(thread)]
        return len(sleepers) == 1 and threads[0].get("waits_for") == f"the end of thread {sleepers[0]}"

    wait_until(is_named, "the main thread to wait for the other one")
    end(process)


def test_a_pipe_and_its_writer_are_named(sandbox: Sandbox) -> None:
    process = victim(sandbox, "read")
    main = look_at(process)["threads"][0]
    assert main["system_call"] == "read"
    assert main["waits_for"].startswith("fd 0: pipe written by ") and f"{os.getpid()} (" in main["waits_for"], main
    end(process)


def test_a_socket_and_its_peer_are_named(sandbox: Sandbox) -> None:
    process = victim(sandbox, "socket")
    number = process.out.split()[1].decode()
    main = look_at(process)["threads"][0]
    assert main["system_call"] == "recvfrom"
    assert main["waits_for"].startswith(f"fd {number}: socket to 127.0.0.1:"), main
    end(process)


def test_a_child_is_named(sandbox: Sandbox) -> None:
    process = victim(sandbox, "child")
    child = process.out.split()[1].decode()
    main = look_at(process)["threads"][0]
    assert main["waits_for"] == f"the child {child} (look_victim)"
    end(process)


def test_a_file_is_named_with_its_file_system(sandbox: Sandbox) -> None:
    fifo = sandbox.files / "fifo"
    os.mkfifo(fifo)
    kept = os.open(fifo, os.O_RDWR)
    process = sandbox.start("read", tool=program("look_victim"), stdin=kept)
    process.wait_for(b"ready")
    waits_for = look_at(process)["threads"][0]["waits_for"]
    assert waits_for.startswith(f"fd 0: {fifo} (") and waits_for.endswith(")"), waits_for
    end(process)
    os.close(kept)


def test_200_threads_are_shown_once(sandbox: Sandbox) -> None:
    process = victim(sandbox, "threads", 200)

    def sleepers() -> list[dict]:
        return [thread for thread in look_at(process)["threads"] if thread.get("system_call") == "pause" and "sleeper" in functions(thread)]

    wait_until(lambda: len(sleepers()) == 200, "200 threads to sleep")
    text = look("--text", process.pid).stdout
    assert text.count("sleeper") == 1 and "200 threads " in text, text
    end(process)


@pytest.mark.timing
def test_a_process_with_200_threads_is_stopped_for_at_most_50_ms(sandbox: Sandbox) -> None:
    process = victim(sandbox, "threads", 200)
    pauses = [look_at(process)["pause_ms"] for _ in range(20)]
    assert 0 < max(pauses) <= LONGEST_PAUSE, pauses
    end(process)


def test_a_stopped_process_stays_stopped(sandbox: Sandbox) -> None:
    process = victim(sandbox, "loop")
    process.signal(signal.SIGSTOP)
    wait_until(lambda: process_state(process.pid) == "T", "the process to stop")
    for _ in range(3):
        seen = look_at(process)
        assert seen["state_words"] == "stopped by a signal" and "loop_in_c" in functions(seen["threads"][0])
        assert process_state(process.pid) == "T"
    process.signal(signal.SIGCONT)
    wait_until(lambda: process_state(process.pid) == "R", "the process to run on")
    end(process)


def test_a_zombie_is_named(sandbox: Sandbox) -> None:
    process = victim(sandbox, "child")
    child = int(process.out.split()[1])
    process.signal(signal.SIGSTOP)
    wait_until(lambda: process_state(process.pid) == "T", "the process to stop")
    os.kill(child, signal.SIGKILL)
    wait_until(lambda: process_state(child) == "Z", "the child to end")
    done = look("--text", child)
    assert done.returncode == 0 and "ended, and not reaped by its parent" in done.stdout, done
    end(process)


def test_a_thread_that_hangs_in_the_kernel_is_described_and_continues(sandbox: Sandbox) -> None:
    process = victim(sandbox, "hang")
    child = int(process.out.split()[1])
    wait_until(lambda: process_state(process.pid) == "D", "vfork to wait for the child")
    main = look_at(process)["threads"][0]
    assert (main["state"], main["system_call"]) == ("D", "vfork") and main["waiting_s"] >= 0, main
    assert "did not stop" in main["problem"] and "vfork" in functions(main)[0], main
    os.kill(child, signal.SIGKILL)
    assert process.wait().expect(0).out_lines[-1] == "went on"


def test_a_look_that_hangs_is_given_up_and_the_process_continues(sandbox: Sandbox) -> None:
    """A page of a stack never comes: the first look is killed because the process is stopped, and the second at its time limit."""
    process = victim(sandbox, "unreadable")
    if b"no userfaultfd" in process.out:
        process.wait()
        pytest.skip("needs userfaultfd(2)")
    seen = look_at(process, "--time-limit", 3)
    assert seen["unfinished"] == "reading its memory" and len(seen["threads"]) == 2
    assert process_state(process.pid) == "S"
    process.process.stdin.close()
    assert process.wait().expect(0).out_lines[-1] == "went on"


# Damages CPython 3.11's list of threads or a frame, and waits: the interpreter does not come to it before it ends.
DAMAGES = {
    "the list of threads is a ring": "write(state + 8, state)",
    "the frames are a ring": "write(frame + 48, frame)",
    "a frame points nowhere": "write(frame + 48, 0x123456789)",
    "the code is not code": "write(frame + 32, frame)",
    "the code points nowhere": "write(frame + 32, 0x123456789)",
}
DAMAGED = """import ctypes, os
def read(at): return ctypes.c_uint64.from_address(at).value
def write(at, value): ctypes.c_uint64.from_address(at).value = value
get = ctypes.pythonapi.PyThreadState_Get
get.restype = ctypes.c_uint64
state = get()
frame = read(read(read(state + 56) + 8) + 48)  # below the one of read()
system = ctypes.CDLL(None)
say, wait, end = system.puts, system.getchar, system._exit
words = b"ready"
out = system.fflush
def run():
    {damage}; say(words); out(None); wait(); end(7)
if read(frame + 32) == id(__import__("sys")._getframe().f_code):
    run()
"""


@pytest.mark.skipif(sys.version_info[:2] != (3, 11) and "3.11" not in PYTHONS, reason="the places are those of Python 3.11")
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_memory_of_python_does_no_harm(damage: str, sandbox: Sandbox) -> None:
    process, _ = script(sandbox, PYTHONS.get("3.11", PYTHON), DAMAGED.format(damage=damage))
    seen = look_at(process)
    assert seen["threads"][0]["tid"] == process.pid and "unfinished" not in seen
    assert len(seen["threads"]) == 1 and len(seen["threads"][0]["stack"]) < 200
    process.process.stdin.close()
    process.wait().expect(7)


@pytest.mark.parametrize("looks", LOOKS)
@pytest.mark.parametrize("mode", ["waits", "count"])
def test_the_process_does_not_notice_looks(mode: str, looks: int, sandbox: Sandbox) -> None:
    """No system call fails with EINTR or moves less, no signal is lost, and no count is wrong."""
    process = victim(sandbox, mode)
    for number in range(looks):
        assert look(process.pid).returncode == 0, number
    process.process.stdin.close()
    done = process.wait().expect(0)
    assert done.out_lines[-1] == "unharmed", done


def test_what_moves_is_found_by_two_looks(sandbox: Sandbox) -> None:
    process, file = script(sandbox, PYTHON)
    wait_until(lambda: any(name == "compute" for thread in look_at(process)["threads"] for name, _ in places(thread, file)), "a loop")
    wait_until(lambda: process_state(process.pid) == "S", "the main thread to sleep again")
    threads = look_at(process, "--twice", "--interval", 300)["threads"]
    main = threads[0]["movement"]
    assert main["switches"] == 0 and main["cpu_s"] == 0 and not main["stack_changed"], main
    assert threads[0]["waiting_s"] >= 0
    [computes] = [thread["movement"] for thread in threads if "compute" in functions(thread, "python")]
    assert computes["cpu_s"] > 0
    end(process)


def test_a_killed_look_leaves_the_process_running(sandbox: Sandbox) -> None:
    """The look is killed at many moments, so that at some of them the process is stopped."""
    process = victim(sandbox, "count")
    for step in range(30):
        looking = subprocess.Popen([LOOK, str(process.pid)], stdout=subprocess.DEVNULL)
        try:
            looking.wait(timeout=step / 1000)
        except subprocess.TimeoutExpired:
            looking.kill()
            looking.wait()
    wait_until(lambda: process_state(process.pid) in "RS", "the process to run on")
    process.process.stdin.close()
    assert process.wait().expect(0).out_lines[-1] == "unharmed"


def test_several_processes_are_shown_in_their_order(sandbox: Sandbox) -> None:
    processes = [victim(sandbox, "read") for _ in range(3)]
    pids = [process.pid for process in processes]
    done = look(*pids, pids[0])
    assert [json.loads(line)["pid"] for line in done.stdout.splitlines()] == [*pids, pids[0]]
    for process in processes:
        end(process)


def test_a_process_that_has_ended_is_named(sandbox: Sandbox) -> None:
    process = victim(sandbox, "read")
    end(process)
    done = look(process.pid)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"hvdrun-look: error: there is no process {process.pid}\n"
    alone = look(process.pid, os.getpid())
    assert alone.returncode == 0 and json.loads(alone.stdout)["pid"] == os.getpid()


@pytest.mark.slow
def test_processes_that_end_while_they_are_looked_at_are_described_or_said_to_have_ended(sandbox: Sandbox) -> None:
    """They end after 0 to 150 ms with eight threads, which end before."""
    text = "import threading, time; [threading.Thread(target=time.sleep, args=(0.01,)).start() for _ in range(8)]; time.sleep({})"
    for number in range(60):
        process = subprocess.Popen([PYTHON, "-c", text.format(number * 0.0025)], env=sandbox.environment())
        done = look("--twice", "--interval", "30", process.pid)
        process.wait()
        if done.returncode == 0:
            known = {"it has ended meanwhile", "no Python stacks: Python's list of threads cannot be read"}
            assert set(json.loads(done.stdout)["problems"]) <= known and not done.stderr, done
        else:
            assert done.stderr == f"hvdrun-look: error: there is no process {process.pid}\n", done


@pytest.mark.parametrize("words", [[], ["x"], ["0"], ["--depth", "0", "1"], ["--what", "1"], ["--interval", "x", "1"]])
def test_a_wrong_command_line_is_refused(words: list[str]) -> None:
    done = look(*words)
    assert done.returncode == 2 and done.stderr.startswith(("hvdrun-look: error: ", f"{LOOK}: ")), done


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_process_of_another_user_is_described_without_its_stacks(sandbox: Sandbox) -> None:
    process = victim(sandbox, "read")
    with copy_for_others(LOOK) as copy:
        done = subprocess.run([copy, str(process.pid)], capture_output=True, text=True, user=65534, group=65534, extra_groups=[],
                              timeout=60)
    assert done.returncode == 0, done
    seen = json.loads(done.stdout)
    assert seen["problems"] == ["no stacks: it belongs to user 0, and this one is 65534"]
    assert seen["threads"][0]["state"] == "S" and not seen["threads"][0]["stack"]
    end(process)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_process_in_another_pid_namespace_is_read(sandbox: Sandbox) -> None:
    file = sandbox.files / "train.py"
    file.write_text(SCRIPT)
    outer = sandbox.start("--pid", "--fork", "--kill-child", PYTHON, file, tool="/usr/bin/unshare")
    outer.wait_for(b"ready")
    [inner] = [pid for pid in outer.descendants() if Path(f"/proc/{pid}/comm").read_text() == "python3\n"]

    def main_thread() -> dict:
        done = look(inner)
        assert done.returncode == 0, done
        return json.loads(done.stdout)["threads"][0]

    wait_until(lambda: places(main_thread(), file)[:1] == [("wait", 9)], "the main thread to wait")
    end(outer)


@pytest.mark.skipif(shutil.which("gdb") is None, reason="needs gdb")
def test_a_process_in_a_debugger_is_described(sandbox: Sandbox) -> None:
    process, file = script(sandbox, PYTHON)
    pid = process.pid
    debugger = subprocess.Popen(["gdb", "-nx", "-q", "-p", str(pid)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)
    wait_until(lambda: process_state(pid) == "t", "gdb to stop the process")
    seen = look_at(process)
    assert seen["traced_by"] == {"pid": debugger.pid, "name": "gdb"}
    assert seen["state_words"] == "stopped by a debugger"
    assert any("gdb) traces it" in problem for problem in seen["problems"]), seen["problems"]
    assert any(places(thread, file)[-1:] == [("<module>", 24)] for thread in seen["threads"])
    assert process_state(pid) == "t"
    debugger.kill()
    debugger.wait()
    end(process)


def test_without_libdw_all_but_native_stacks_is_there(sandbox: Sandbox) -> None:
    if SANITIZED:
        pytest.skip("the sanitizer's library comes first")
    process, file = script(sandbox, PYTHON)
    folder = sandbox.files / "no-libdw"
    folder.mkdir()
    (folder / "libdw.so.1").write_text("not a library")
    wait_until(lambda: places(look_at(process)["threads"][0], file)[-1] == ("<module>", 24), "the script to wait")
    done = subprocess.run([LOOK, str(process.pid)], capture_output=True, text=True, timeout=60,
                          env={"LD_LIBRARY_PATH": str(folder)})
    seen = json.loads(done.stdout)
    assert any("package libdw1" in problem for problem in seen["problems"]), seen["problems"]
    assert places(seen["threads"][0], file)[-1] == ("<module>", 24)
    assert alive(process.pid)
    end(process)
