"""A Slurm of two nodes on this machine, from Debian's packages (`slurm-wlm`, `munge`), in a separate folder.

Every daemon is a child of this process, in the foreground, and is ended by its process id. The system's own Slurm and
munge are not touched: key, sockets, ports and state are in the folder.
"""

import getpass
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

PAGE = (Path(__file__).parents[1] / "docs" / "slurm.md").read_text()
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch")
PATIENCE_S = 60.0
"""Seconds after which a daemon that does not answer counts as a fault of the environment."""


def missing() -> str | None:
    """Why Slurm cannot run here."""
    lacking = [name for name in PROGRAMS if _path(name) is None]
    return f"no {', '.join(lacking)} here (apt-get install slurm-wlm munge)" if lacking else None


def until(happened: Callable[[], object]) -> None:
    """Poll until the condition holds, with a limit only so that a test that would never end fails."""
    for _ in range(6000):
        if happened():
            return
        time.sleep(0.05)
    raise AssertionError("it did not happen")


def _path(program: str) -> str | None:
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


class Cluster:
    """Two nodes, n1 and n2, with the given number of CPUs each."""

    def __init__(self, folder: Path, cpus: int = 1, memory_mb: int = 4000) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self.conf = folder / "slurm.conf"
        self._munge = folder / "munge.socket"
        ports = _free_ports(3)
        user = getpass.getuser()
        self.conf.write_text(
            f"""ClusterName=test
SlurmctldHost={socket.gethostname()}
AuthType=auth/munge
AuthInfo=socket={self._munge}
CryptoType=crypto/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
SlurmUser={user}
SlurmdUser={user}
MpiDefault=none
ReturnToService=2
SlurmctldPort={ports[0]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
KillWait=5
UnkillableStepTimeout=30
SchedulerParameters=sched_min_interval=10000,batch_sched_delay=0,sched_interval=2,bf_interval=2
JobRequeue=1
MaxArraySize=1001
NodeName=n1 NodeHostname={socket.gethostname()} Port={ports[1]} CPUs={cpus} RealMemory={memory_mb}
NodeName=n2 NodeHostname={socket.gethostname()} Port={ports[2]} CPUs={cpus} RealMemory={memory_mb}
PartitionName=main Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
"""
        )
        (folder / "state").mkdir()
        self.environment = {**os.environ, "SLURM_CONF": str(self.conf)}

    def start(self) -> "Cluster":
        key = self.folder / "munge.key"
        key.touch(0o600)
        key.write_bytes(os.urandom(1024))
        names = {"socket": "socket", "key-file": "key", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
        files = [f"--{option}={self.folder}/munge.{name}" for option, name in names.items()]
        try:
            self._start("munge", "munged", "--foreground", "--force", *files)
            self._await("munge", lambda: self._munge.exists())
            self._start("slurmctld", "slurmctld", "-D")
            for node in ("n1", "n2"):
                self.start_node(node)
            self._await("slurmctld", lambda: self.states() == {"n1": "idle", "n2": "idle"})
        except BaseException:
            self.stop()
            raise
        return self

    def start_node(self, node: str) -> None:
        self._start(node, "slurmd", "-D", "-N", node)

    def kill_node(self, node: str) -> None:
        """Kill the slurmd of a node without notice."""
        child = self._children.pop(node)
        child.kill()
        child.wait()

    def set_down(self, node: str) -> None:
        self.command("scontrol", "update", f"nodename={node}", "state=down", "reason=test")

    def set_up(self, node: str) -> None:
        self.command("scontrol", "update", f"nodename={node}", "state=resume", check=False)  # it may already be back

    def states(self) -> dict[str, str]:
        output = self.command("sinfo", "-h", "-N", "-o", "%N %t", check=False)
        return dict(line.split() for line in output.splitlines() if len(line.split()) == 2)

    def jobs(self, *options: str) -> list[list[str]]:
        """Id, name, state and node of the waiting and running jobs."""
        output = self.command("squeue", "-h", "-r", "-o", "%i|%j|%T|%N", *options, check=False)
        return [line.split("|") for line in output.splitlines()]

    def command(self, *words: str, check: bool = True) -> str:
        ended = subprocess.run(words, env=self.environment, capture_output=True, text=True)
        assert not check or ended.returncode == 0, f"{' '.join(words)}: {ended.stderr}"
        return ended.stdout

    def clear(self) -> None:
        """Cancel the jobs of earlier tests and bring both nodes up."""
        self.command("scancel", f"--user={getpass.getuser()}", check=False)
        for node in ("n1", "n2"):
            if self.states().get(node) not in ("idle", "mix", "alloc", "comp"):
                self.command("scontrol", "update", f"nodename={node}", "state=resume", check=False)
        self._await("slurmctld", lambda: not self.jobs() and set(self.states().values()) == {"idle"})

    def stop(self) -> None:
        if "slurmctld" in self._children:
            self.command("scancel", f"--user={getpass.getuser()}", check=False)
            until = time.monotonic() + 10
            while self.jobs() and time.monotonic() < until:
                time.sleep(0.1)
        for child in reversed(self._children.values()):
            child.send_signal(signal.SIGTERM)
        for child in self._children.values():
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        self._children.clear()
        for pid in self._steps():  # they would report the end of their job forever
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _steps(self) -> list[int]:
        """The processes that slurmd started for jobs."""
        mine = f"SLURM_CONF={self.conf}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if (entry / "comm").read_text().startswith("slurmstepd") and mine in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
        return found

    def _start(self, name: str, program: str, *options: str) -> None:
        path = _path(program)
        assert path is not None
        with open(self.folder / f"{name}.out", "ab") as out:
            self._children[name] = subprocess.Popen([path, *options], env=self.environment, stdout=out, stderr=out)

    def _await(self, name: str, is_there: Callable[[], object]) -> None:
        until = time.monotonic() + PATIENCE_S
        while not is_there():
            child = self._children[name]
            if child.poll() is not None or time.monotonic() > until:
                tail = "\n".join(path.read_text(errors="replace")[-2000:] for path in self.folder.glob("*.out"))
                raise RuntimeError(f"{name} does not come up ({child.poll()}):\n{tail}\n{self.states()}")
            time.sleep(0.05)


def _free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


def write_profile(folder: Path) -> None:
    """Write the file that docs/slurm.md shows."""
    [(name, text)] = re.findall(r"^`([\w.]+)`:\n\n```yaml\n(.*?)^```", PAGE, re.M | re.S)
    (folder / name).write_text(text)
