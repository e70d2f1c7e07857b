"""horovod.run() and the program horovodrun, on hvdrun."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Callable, NoReturn, Optional, Union

from hvd import launch

__all__ = ["run"]


def run(func: Callable[..., Any], args: Sequence[Any] = (), kwargs: Optional[Mapping[str, Any]] = None,
        num_proc: int = 1, min_num_proc: Optional[int] = None, max_num_proc: Optional[int] = None,
        slots: Optional[int] = None, reset_limit: Optional[int] = None,
        cooldown_range: Optional[Sequence[int]] = None, hosts: Optional[str] = None, hostfile: Optional[str] = None,
        host_discovery_script: Optional[str] = None, start_timeout: Optional[int] = None,
        ssh_port: Optional[int] = None, ssh_identity_file: Optional[str] = None,
        disable_cache: Optional[bool] = None, output_filename: Optional[str] = None,
        verbose: Union[int, bool, None] = None, use_gloo: Optional[bool] = None, use_mpi: Optional[bool] = None,
        mpi_args: Optional[str] = None, network_interface: Optional[str] = None,
        network_interfaces: Union[str, Sequence[str], None] = None, executable: Optional[str] = None,
        np: Optional[int] = None, min_np: Optional[int] = None, max_np: Optional[int] = None) -> list[Any]:
    """Calls the function on `num_proc` ranks and returns their results by rank.

    Each argument is the option of horovodrun of that name; docs/frameworks/horovod.md has the table. Options that
    horovodrun rejects raise an error with horovodrun's text. hvd.run() documents the pickling, and the exceptions.
    """
    interfaces = network_interfaces or network_interface
    if interfaces is not None and not isinstance(interfaces, str):
        interfaces = ",".join(interfaces)
    values = {
        "-np": num_proc if np is None else np,
        "--min-np": min_num_proc if min_np is None else min_np,
        "--max-np": max_num_proc if max_np is None else max_np,
        "--slots-per-host": slots,
        "--reset-limit": reset_limit,
        "--blacklist-cooldown-range": cooldown_range,
        "-H": hosts,
        "--hostfile": hostfile,
        "--host-discovery-script": host_discovery_script,
        "--start-timeout": start_timeout,
        "-p": ssh_port,
        "-i": ssh_identity_file,
        "--output-filename": output_filename,
        "--mpi-args": mpi_args,
        "--network-interfaces": interfaces,
    }
    options = [word for option, value in values.items() if value is not None for word in (option, str(value))]
    flags = {"--disable-cache": disable_cache, "--gloo": use_gloo, "--mpi": use_mpi}
    options += [option for option, value in flags.items() if value]
    options += ["--verbose"] * int(verbose or 0)
    return launch.start("horovodrun", options, func, args, kwargs or {}, executable, {})


def main() -> NoReturn:
    """The program horovodrun: replaces itself by hvdrun under that name. Exits with a message if hvdrun is missing."""
    try:
        program = launch.find_hvdrun("horovodrun")
    except FileNotFoundError as error:
        sys.exit(str(error))
    os.execv(program, ["horovodrun", *sys.argv[1:]])
