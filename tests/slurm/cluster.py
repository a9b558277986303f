"""A Slurm cluster on this machine, for tests: a controller and two virtual nodes of four made-up GPUs, on loopback.

    python tests/slurm/cluster.py run [--seconds 600] COMMAND...       start it, run the command in it, stop it
    python tests/slurm/cluster.py start FOLDER [--seconds 3600]        start it and print the environment to source
    python tests/slurm/cluster.py stop FOLDER

Needs Debian's slurmctld, slurmd and slurm-client: no root, no munge, no systemd, no accounting database. It trusts
everyone who reaches its ports. All that it writes lies in one folder; every daemon ends after the given seconds.
"""

import argparse
import contextlib
import getpass
import os
import shlex
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

BINARIES = ("slurmctld", "slurmd", "sbatch", "srun", "scontrol", "squeue", "sinfo", "scancel")
NODES = ("n1", "n2")
GPUS = 4  # of each node
REMEMBERED = 86400  # seconds that the controller knows a job after its end: longer than any test looks for it
PATHS = ("/usr/sbin", "/usr/local/sbin")  # where the daemons lie, often not in a user's PATH

CONFIGURATION = """
ClusterName=loopback
SlurmctldHost=localhost(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
SlurmctldPort={controller_port}
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdPidFile={folder}/run/slurmd.%n.pid
SlurmdSpoolDir={folder}/spool/%n
SlurmdLogFile={folder}/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SwitchType=switch/none
MpiDefault=none
ReturnToService=1
MinJobAge={remembered}
KillWait=30
SlurmdTimeout=10
SchedulerParameters=sched_interval=2,bf_interval=2
SlurmdParameters=config_overrides
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/log/jobs.txt
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
GresTypes=gpu
NodeName={nodes} NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first_port}-{last_port}] \\
    CPUs={cpus} RealMemory=4000000 Gres=gpu:{gpus} State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE PriorityTier=5 PreemptMode=OFF State=UP
PartitionName=low Nodes=ALL MaxTime=INFINITE PriorityTier=1 PreemptMode=REQUEUE State=UP
PartitionName=high Nodes=ALL MaxTime=INFINITE PriorityTier=10 PreemptMode=OFF State=UP
"""

# Inside a job Snakemake drops all variables of Slurm, SLURM_CONF among them; real clusters have that file in /etc.
SHIM = """#!/bin/sh
export SLURM_CONF="${{SLURM_CONF:-{folder}/etc/slurm.conf}}"
exec {program} "$@"
"""


@dataclass(frozen=True)
class Cluster:
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """For commands that use the cluster."""
        own = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "SBATCH_", "SRUN_"))}
        path = os.pathsep.join((str(self.folder / "bin"), search_path()))
        return own | {"SLURM_CONF": str(self.folder / "etc/slurm.conf"), "PATH": path}

    def call(self, *command: str, check: bool = True, seconds: float = 60) -> str:
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=False, timeout=seconds
        )
        if check and done.returncode:
            raise RuntimeError(f"{shlex.join(command)}: status {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def jobs(self, states: str = "all") -> list[dict[str, str]]:
        """Every job that the controller still knows."""
        text = self.call("squeue", f"--states={states}", "--noheader", "--format=%i|%T|%k|%N|%P|%r|%Z")
        names = ("id", "state", "comment", "nodes", "partition", "reason", "folder")
        return [dict(zip(names, line.strip().split("|"), strict=True)) for line in text.splitlines()]

    def start_node(self, node: str, seconds: float) -> None:
        spawn(self, f"slurmd-{node}", seconds, "slurmd", "-D", "-N", node)

    def kill(self, daemon: str, number: int = signal.SIGKILL) -> None:
        """End one daemon, slurmctld or slurmd-n1, as a crash would."""
        pid = int((self.folder / "run" / f"{daemon}.pid-of-ours").read_text())
        end_group(pid, number)


def search_path() -> str:
    return os.pathsep.join((os.environ.get("PATH", os.defpath), *PATHS))


def missing() -> list[str]:
    """The programs of Slurm that this machine lacks."""
    return [name for name in BINARIES if shutil.which(name, path=search_path()) is None]


def free_ports(number: int) -> list[int]:
    """Successive free ports, for the controller and the nodes."""
    for first in range(20000 + os.getpid() % 5000, 60000, 17):
        with contextlib.ExitStack() as stack:
            try:
                for port in range(first, first + number):
                    one = stack.enter_context(socket.socket())
                    one.bind(("127.0.0.1", port))
            except OSError:
                continue
        return list(range(first, first + number))
    raise RuntimeError("no free ports")


def made_up_gpus(folder: Path) -> list[str]:
    """Device files; root can make its own, which Slurm shows to jobs, others take terminals, which it only counts."""
    if os.geteuid() != 0:
        return [f"/dev/tty{number}" for number in range(GPUS)]
    names = [str(folder / f"gpu{number}") for number in range(GPUS)]
    for name in names:
        os.mknod(name, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    return names


def write_configuration(folder: Path, cpus: int) -> None:
    for name in ("etc", "bin", "state", "log", "run", "devices", *(f"spool/{node}" for node in NODES)):
        (folder / name).mkdir(parents=True, exist_ok=True)
    controller_port, *node_ports = free_ports(1 + len(NODES))
    text = CONFIGURATION.format(
        user=getpass.getuser(),
        folder=folder,
        controller_port=controller_port,
        first_port=node_ports[0],
        last_port=node_ports[-1],
        nodes=f"n[1-{len(NODES)}]",
        host=socket.gethostname().partition(".")[0],
        cpus=cpus,
        gpus=GPUS,
        remembered=REMEMBERED,
    )
    (folder / "etc/slurm.conf").write_text(text)
    devices = made_up_gpus(folder / "devices")
    lines = (f"NodeName={node} Name=gpu File={device}\n" for node in NODES for device in devices)
    (folder / "etc/gres.conf").write_text("".join(lines))
    for name in ("srun", "sbatch", "scontrol", "squeue"):
        shim = folder / "bin" / name
        shim.write_text(SHIM.format(folder=folder, program=shutil.which(name, path=search_path())))
        shim.chmod(0o755)


def spawn(cluster: Cluster, name: str, seconds: float, *command: str) -> None:
    """A daemon that ends by itself: in its own process group, whose leader's id is kept."""
    with open(cluster.folder / "log" / f"{name}.out", "a") as log:
        process = subprocess.Popen(
            ["timeout", "--kill-after=5", str(seconds), *command],
            env=cluster.environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    (cluster.folder / "run" / f"{name}.pid-of-ours").write_text(str(process.pid))


def start(folder: Path, seconds: float = 600, cpus: int = 4) -> Cluster:
    """The cluster, its nodes idle."""
    if lacking := missing():
        raise RuntimeError(f"no Slurm on this machine ({', '.join(lacking)}); Debian: slurmctld slurmd slurm-client")
    cluster = Cluster(folder.resolve())
    write_configuration(cluster.folder, cpus)
    spawn(cluster, "slurmctld", seconds, "slurmctld", "-D")
    for node in NODES:
        cluster.start_node(node, seconds)
    wait_for_idle(cluster)
    return cluster


def wait_for_idle(cluster: Cluster, seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        states = cluster.call("sinfo", "--noheader", "--Node", "--partition=main", "--format=%T", check=False).split()
        if states == ["idle"] * len(NODES):
            return
        time.sleep(0.1)
    log = "".join(path.read_text()[-1500:] for path in sorted((cluster.folder / "log").iterdir()))
    stop(cluster)
    raise RuntimeError(f"the nodes are not idle after {seconds} s: {states}\n{log}")


def stop(cluster: Cluster) -> None:
    """Cancel what runs, then end the daemons that were started, by their ids."""
    with contextlib.suppress(Exception):
        cluster.call("scancel", "--user", getpass.getuser(), "--signal=KILL", "--full", check=False, seconds=10)
        cluster.call("scancel", "--user", getpass.getuser(), check=False, seconds=10)
        until = time.monotonic() + 10
        while cluster.jobs("running,completing") and time.monotonic() < until:
            time.sleep(0.2)
    for path in sorted((cluster.folder / "run").glob("*.pid-of-ours"), reverse=True):  # slurmd before slurmctld
        end_group(int(path.read_text()), signal.SIGTERM)
        path.unlink()
    for pid in left_over(cluster):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def left_over(cluster: Cluster) -> list[int]:
    """Processes of its jobs that nobody watches any more, as after a node was taken down."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            environment = (folder / "environ").read_bytes()
            if b"SLURM_JOB_ID=" in environment and bytes(cluster.folder) in environment:
                found.append(int(folder.name))
    return found


def end_group(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, number)
        until = time.monotonic() + 10
        while time.monotonic() < until:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
            os.killpg(pid, 0)  # ends the loop when nobody is left
            time.sleep(0.05)
        os.killpg(pid, signal.SIGKILL)


@contextlib.contextmanager
def running(seconds: float = 600, cpus: int = 4) -> Iterator[Cluster]:
    """A cluster in a folder of its own, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="slurm-", ignore_cleanup_errors=True) as folder:
        cluster = start(Path(folder), seconds, cpus)
        try:
            yield cluster
        finally:
            stop(cluster)


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # a way out through the blocks that stop the cluster
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(dest="action", required=True)
    one = actions.add_parser("run", help="start it, run a command, stop it")
    one.add_argument("--seconds", type=float, default=600)
    one.add_argument("--cpus", type=int, default=4, help="of each node (default 4, whatever the machine has)")
    one.add_argument("command", nargs=argparse.REMAINDER)
    one = actions.add_parser("start", help="start it in a folder")
    one.add_argument("folder", type=Path)
    one.add_argument("--seconds", type=float, default=3600)
    one.add_argument("--cpus", type=int, default=4)
    actions.add_parser("stop", help="stop it").add_argument("folder", type=Path)
    arguments = parser.parse_args()
    if arguments.action == "stop":
        stop(Cluster(arguments.folder.resolve()))
        return 0
    if arguments.action == "start":
        cluster = start(arguments.folder, arguments.seconds, arguments.cpus)
        print(f"export SLURM_CONF={cluster.folder}/etc/slurm.conf PATH={cluster.folder}/bin:$PATH")
        return 0
    with running(arguments.seconds, arguments.cpus) as cluster:
        command = [
            "timeout",
            "--kill-after=10",
            str(arguments.seconds),
            *arguments.command[arguments.command[0] == "--" :],
        ]
        return subprocess.run(command, env=cluster.environment, check=False).returncode


if __name__ == "__main__":
    try:
        sys.exit(main())
    except RuntimeError as error:
        sys.exit(f"error: {error}")
