"""A `python` that has read its libraries already, for tests that start hundreds of short processes.

Each script of the workflow that is started reads torch first, 1.7 seconds of a core, and Snakemake its own modules.
Here one process reads them, and for every call of `python script ...` or `python -m snakemake ...` it forks one that
goes on with that script: its own file and all of this repository's modules are read as ever, from the tree that is
asked. What the repository holds too is not compiled, and of its configuration not parsed and checked, again
(remembered.py).
`commands()` is a folder to put first on PATH. Who asks for an environment that Python or a library reads at its start
(more threads) gets an ordinary process, as does every other module; `commands` makes one for such an environment too.
"""

import array
import atexit
import contextlib
import ctypes
import gc
import importlib
import io
import marshal
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
import weakref
from functools import cache
from pathlib import Path

from remembered import code_of, compile_the_scripts, read_the_configuration, remember_the_configuration

LIBRARIES = ("torch", "torch._dynamo", "torch.distributed.tensor", "numpy", "zstandard", "yaml", "matplotlib.pyplot")
LIBRARIES += ("torch.nn.attention.flex_attention", "numpy.ctypeslib", "safetensors.torch", "sentencepiece", "fasttext")
LIBRARIES += ("matplotlib.backends.backend_agg", "matplotlib.backends.backend_pdf", "lxml.etree", "jsonschema")
LIBRARIES += ("snakemake.cli", "snakemake.report.html_reporter", "snakemake.storage", "snakemake.profiles", "yte")
LIBRARIES += ("requests", "smart_open", "argparse_dataclass", "platformdirs")
# Read once, by Python or a library.
AT_START = ("PYTHONPATH", "PYTHONHASHSEED", "PYTHONHOME", "PYTHONUTF8", "OMP_", "MKL_", "MPL", "TORCH", "CUDA", "LANG")
AT_START += ("LC_", "TZ")
# What torchrun tells its processes, read when they meet; and what torch writes down when a test first compiles.
READ_LATER = ("TORCHELASTIC_", "TORCH_NCCL_", "TORCHINDUCTOR_CACHE_DIR")

MADV_COLLAPSE = 25  # <linux/mman.h>
THREADS = {"MKL_NUM_THREADS": "1"}  # where nothing is said; Snakemake says it to every job
# What is called: it hands over its words, folder, environment and open files, passes signals on, and ends as the fork
# ends. It reads what Python has built in alone: `json`, `signal` and `socket` would take longer than all the rest. A
# script that begins with ALONE needs no library, and is run here and now.
ALONE = "# needs no library\n"
CLIENT = """#!{python} -IS
import os, sys
environment = dict(os.environ)
words = sys.argv[1:]
script = bool(words) and words[0].endswith(".py")
ours = words[:2] == ["-m", "snakemake"] or words[:1] == ["-c"] or script
at_start = {{name: value for name, value in environment.items() if name.startswith({names})}}
at_start = {{name: value for name, value in at_start.items() if not name.startswith({read_later})}}
if not ours or {threads} | at_start != {at_start}:
    os.execv({python!r}, [{python!r}, *words])
if script and os.path.exists(words[0]):
    with open(words[0], encoding="utf-8") as file:
        if file.readline() == {alone!r}:
            sys.argv = words
            exec(compile(file.read(), words[0], "exec"), {{"__name__": "__main__"}})
            sys.exit()
import _signal, _socket, marshal
server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
server.connect({address!r})
request = marshal.dumps([words, os.getcwd(), environment, os.umask(0)])
for number in (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP, _signal.SIGUSR1, _signal.SIGUSR2):
    _signal.signal(number, lambda number, frame: server.sendall(bytes([number])))
files = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
server.sendmsg([len(request).to_bytes(8)], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
server.sendall(request)
answer = server.recv(2)
if len(answer) < 2:
    sys.exit("the process of tests/ready.py is gone")
if answer[0]:
    if answer[0] != _signal.SIGKILL:
        _signal.signal(answer[0], _signal.SIG_DFL)
    os.kill(os.getpid(), answer[0])
os._exit(answer[1])
"""


def at_start(environment: dict[str, str]) -> dict[str, str]:
    found = {name: value for name, value in environment.items() if name.startswith(AT_START)}
    return {name: value for name, value in found.items() if not name.startswith(READ_LATER)}


def forks() -> bool:
    return hasattr(os, "pidfd_open")  # Linux


@cache
def commands(**own: str) -> Path:
    """A folder with `python`; the process behind it lives until this one ends. `own`: what it reads at its start."""
    if not forks():
        return Path(sys.executable).parent
    if SHARED in os.environ and not own:
        folder = Path(os.environ[SHARED])
        for _ in range(3000):  # begun before this process
            if (folder / "python").exists():
                return folder
            time.sleep(0.1)
        raise TimeoutError("no process of tests/ready.py")
    folder, server = begin(**own)
    SERVERS.append(server.pid)
    assert server.stdout.readline() == b"ready\n"
    return folder


def share() -> None:
    """One for all processes that this one begins, so that each need not have its own."""
    if forks() and SHARED not in os.environ:
        os.environ[SHARED] = str(begin()[0])


def begin(**own: str) -> tuple[Path, subprocess.Popen]:
    folder = Path(tempfile.mkdtemp(prefix="ready-"))
    environment = {**os.environ, **THREADS, "OMP_NUM_THREADS": "1", **own}
    server = subprocess.Popen(
        [sys.executable, __file__, str(folder)], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )

    def end() -> None:
        server.stdin.close()
        server.wait()
        subprocess.run(["rm", "-rf", folder], check=False)

    atexit.register(end)
    return folder, server


def python() -> str:
    """What stands for `python` in a command, and for `sys.executable` where no process is killed or looked at."""
    return str(commands() / "python")


def torchrun() -> tuple[str, ...]:
    """What starts a script on two processes: torchrun, all three with their libraries read."""
    return (python(), "-c", "from torch.distributed.run import main; main()", *on_two())


def on_two() -> tuple[str, ...]:
    return ("--standalone", "--nproc-per-node", "2", "--no-python", python())


SHARED = "PARALLAX_READY"  # a folder
SERVERS: list[int] = []  # pids


def used(server: int) -> float:
    """Seconds of a core that it and all that it forked took: they are no children of ours."""
    ticks = Path(f"/proc/{server}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[11:15]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def whole(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        found += connection.recv(size - len(found)) or sys.exit("half a request")
    return found


def serve(listener: socket.socket) -> list[str]:
    """Fork for each request; returns, in the fork, the words that it was called with."""
    running: dict[int, tuple[int, socket.socket]] = {}  # a fork's pidfd: its pid and who waits for it
    while True:
        waiting = {connection.fileno(): pidfd for pidfd, (_, connection) in running.items()}
        for ready in select.select([0, listener, *running, *waiting], [], [])[0]:
            if ready == 0:  # who started this is gone
                for pid, _ in running.values():
                    os.kill(pid, signal.SIGKILL)
                os._exit(0)
            elif ready is listener:
                connection, _ = listener.accept()
                size, files, *_ = connection.recvmsg(8, socket.CMSG_SPACE(12))
                words, folder, environment, umask = marshal.loads(whole(connection, int.from_bytes(size)))
                opened = array.array("i", files[0][2])
                pid = os.fork()
                if pid:
                    for file in opened:
                        os.close(file)
                    running[os.pidfd_open(pid)] = (pid, connection)
                    continue
                for number, file in enumerate(opened):
                    os.dup2(file, number)
                for file in (*opened, *running, *waiting, connection.fileno(), listener.fileno()):
                    with contextlib.suppress(OSError):
                        os.close(file)
                os.chdir(folder)
                os.umask(umask)
                os.environ.clear()
                os.environ.update(environment)
                return words
            elif ready in running:
                pid, connection = running.pop(ready)
                status = os.waitpid(pid, 0)[1]
                with contextlib.suppress(OSError):
                    connection.sendall(bytes([os.WTERMSIG(status), os.WEXITSTATUS(status)]))
                connection.close()
                os.close(ready)
            elif waiting.get(ready) in running:
                pid, connection = running[waiting[ready]]
                told = connection.recv(1)
                os.kill(pid, told[0] if told else signal.SIGKILL)


def draw() -> None:
    """A first figure reads half of what draws, and looks for the fonts."""
    from matplotlib.figure import Figure

    figure = Figure()
    figure.add_subplot().set_title("a")
    for form in ("png", "pdf"):
        figure.savefig(io.BytesIO(), format=form)


def gather_pages() -> None:
    """All memory into pages of 2 MB, where the kernel can (Linux 6.1): a fork then takes half the time."""
    libc, size = ctypes.CDLL(None), 2 << 20
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        if line.split()[1] == "rw-p":
            start, end = (int(bound, 16) for bound in line.split()[0].split("-"))
            for page in range(-(-start // size) * size, end - size + 1, size):
                libc.madvise(ctypes.c_void_p(page), ctypes.c_size_t(size), MADV_COLLAPSE)


def main() -> None:
    folder, started = Path(sys.argv[1]), at_start(dict(os.environ))
    for name in LIBRARIES:
        with contextlib.suppress(ModuleNotFoundError):  # who needs it says so
            importlib.import_module(name)
    draw()
    remember_the_configuration()
    read_the_configuration()
    compile_the_scripts()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / "socket"))
    listener.listen(64)
    client = CLIENT.format(
        python=sys.executable,
        names=AT_START,
        read_later=READ_LATER,
        threads=THREADS,
        at_start=started,
        alone=ALONE,
        address=str(folder / "socket"),
    )
    gc.collect()
    gc.freeze()
    gather_pages()
    # What libraries take apart at the end: half of the time of a process that does nothing.
    for finalizer in weakref.finalize._registry:
        finalizer.atexit = False
    (folder / "begun").write_text(client, encoding="utf-8")
    (folder / "begun").chmod(0o755)
    (folder / "begun").rename(folder / "python")  # whole at once: who shares it waits for it
    print("ready", flush=True)
    status = 0
    words = serve(listener)
    try:
        go_on(words)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if end.code is not None and not isinstance(end.code, int):
            print(end.code, file=sys.stderr)
    except BaseException as error:
        sys.excepthook(*sys.exc_info())
        status = 1
        if isinstance(error, KeyboardInterrupt):
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
    # What Python does at its end, but for taking each module apart: half a second, of what was read before.
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status & 255)


def go_on(words: list[str]) -> None:
    """As `python` does with these words."""
    del sys.modules["__main__"]
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    if words[0] == "-m":
        sys.argv, sys.path[0] = words[1:], os.getcwd()
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        return
    module = sys.modules["__main__"] = types.ModuleType("__main__")
    if words[0] == "-c":
        sys.argv, sys.path[0], code = ["-c", *words[2:]], "", words[1].encode()
    else:
        sys.argv, sys.path[0], code = words, str(Path(words[0]).resolve().parent), Path(words[0]).read_bytes()
        module.__file__ = words[0]
    exec(code_of(code, words[0]), module.__dict__)


if __name__ == "__main__":
    main()
