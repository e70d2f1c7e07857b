"""The user ends or pauses a job while a login hangs where nothing can interrupt it: in the look-up of a name."""
import signal

import pytest

from harness import Running, Sandbox, process_state, program, wait_until


def start_with_hanging_login(sandbox: Sandbox, where: str, **options: object) -> Running:
    mark = sandbox.files / "hangs"
    running = sandbox.start("--ssh-client", "libssh", "--start-timeout", "1000", "-H", "localhost:1,hangs.invalid:1",
                            "sleep", "1000",
                            env={"LD_PRELOAD": program("hang_lookup.so"), "HANG_LOOKUP_MARK": str(mark),
                                 "HANG_LOOKUP_IN": where}, **options)
    wait_until(mark.exists, "a login that hangs")
    return running


@pytest.mark.parametrize("where", ["hvdrun", "ssh"])
def test_ctrl_c_ends_a_job_whose_login_hangs(sandbox: Sandbox, where: str) -> None:
    """ssh is asked for its configuration before libssh logs in."""
    running = start_with_hanging_login(sandbox, where)
    running.signal(signal.SIGINT)
    running.wait().expect(130)


def test_ctrl_z_stops_hvdrun_while_a_login_hangs(sandbox: Sandbox) -> None:
    running = start_with_hanging_login(sandbox, "hvdrun", start_new_session=True)
    running.signal(signal.SIGTSTP)
    wait_until(lambda: process_state(running.pid) == "T", "hvdrun stopped")
    running.signal(signal.SIGINT)
    running.signal(signal.SIGCONT)
    running.wait().expect(130)
