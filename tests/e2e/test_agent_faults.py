"""What an agent cannot read does not take the grace period from the ranks."""
import signal

import pytest

from harness import Sandbox, program, wait_until

# Waits in wait4 for a child, and ends in order when SIGTERM arrives, as a program does that writes a checkpoint.
SAVES = "trap 'echo saved; exit 3' TERM; echo up; sleep 7777 & wait"


@pytest.mark.parametrize("name", ["/stat", "/syscall", "/wchan", "/children", "/status"])
def test_ranks_get_sigterm_though_a_process_ends_while_it_is_read(sandbox: Sandbox, name: str) -> None:
    failed = sandbox.files / "failed"
    running = sandbox.start("-np", "3", "--oversubscribe", "bash", "-c", SAVES,
                            env={"LD_PRELOAD": program("fail_read.so"), "FAIL_READ_OF": name, "FAIL_READ_MARK": str(failed)})
    wait_until(lambda: running.out.count(b"up") == 3, "three ranks that run")
    running.signal(signal.SIGTERM)
    done = running.wait().expect(143)
    assert failed.exists() and done.out.count(b"saved") == 3, done
    assert b"terminate called" not in done.err and b"fault" not in done.err, done
