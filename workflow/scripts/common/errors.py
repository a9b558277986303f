"""Errors that a user can mend: one line that names the file, the line or the key, and what to do.

`run_main` is the one place where a script ends with a message. What a file, a path or the machine can do to a script is
one line; a traceback is a fault of ours, and says so.
"""

import errno
import gc
import os
import signal
import sys
import traceback
import unicodedata
from collections.abc import Callable
from pathlib import Path

USER_ERROR_STATUS = 2
BUG_STATUS = 1
BUG = "this is a fault of Parallax"
STOPPED_STATUS = 75  # sysexits' EX_TEMPFAIL: a training that was told to save and end; run me again
LONGEST = 2000  # characters of one line of a message: a line of 50 MB helps nobody

REASONS = {
    errno.ENOENT: "no such file",
    errno.EEXIST: "is there already, and is another kind of thing",
    errno.EISDIR: "is a folder, and a file is needed",
    errno.ENOTDIR: "goes through a file as if that were a folder",
    errno.EACCES: "no permission; change the permissions of the file or of a folder above it",
    errno.EPERM: "not permitted here",
    errno.ELOOP: "is a symbolic link that goes round in a circle",
    errno.ENAMETOOLONG: "the name is too long for this file system",
    errno.EIO: "the disk cannot read or write it",
    errno.EMFILE: "too many files are open (ulimit -n)",
    errno.ENOTEMPTY: "is a folder that is not empty",
}


class UserError(Exception):
    """The input or the configuration is wrong; the message says where and how to mend it. Each argument is one line."""

    def __str__(self) -> str:
        return "\n".join(plain(str(line)) for line in self.args)


def plain(text: str) -> str:
    """The text as one line that a terminal only shows: control characters and line breaks are escaped, and a long text
    keeps its beginning and its end."""
    if len(text) > LONGEST:
        text = f"{text[: LONGEST - 500]} [... {len(text):,} characters ...] {text[-400:]}"
    return "".join(letter if _shown(letter) else letter.encode("unicode_escape").decode() for letter in text)


def _shown(letter: str) -> bool:
    return letter.isprintable() or unicodedata.category(letter) in ("Zs", "Co", "Cn")


def reason(error: OSError) -> str:
    """What stands between us and a file, in words."""
    words = REASONS.get(error.errno) or (error.strerror or str(error) or type(error).__name__).lower()
    return plain(words)


def why_no_file(path: str | Path) -> str:
    """Why there is no file to be read at a path: it is missing, or is something else."""
    try:
        with open(path, "rb"):
            return "is there, but is no regular file"
    except OSError as error:
        return reason(error)
    except ValueError:
        return "a name cannot hold a null byte"


def run_main(main: Callable[[], int | None]) -> None:
    """Run a script's main. A wrong input ends as one line on stderr and status 2, a fault of ours as a traceback that
    says so and status 1."""
    try:
        status = main() or 0
        if sys.stdout is not None:  # closed by the caller (>&-)
            sys.stdout.flush()
    except UserError as error:
        _stop(str(error))
    except KeyboardInterrupt:
        _stop("interrupted", 128 + signal.SIGINT)
    except BrokenPipeError as error:
        if error.filename is not None:
            _stop(f"{_name(error)}: nobody reads it any more")
        # `| head` has read enough; at exit Python would flush, and complain, once more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
    except MemoryError:
        _stop("out of memory; give the job more (resources, mem_mb), or less to do at once")
    except OSError as error:
        # With a name it is about a file that somebody gave; without one only a full or failing disk is not our fault.
        if error.filename is None and error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE):
            _bug()
        _stop(f"{_name(error)}: {reason(error)}" if error.filename is not None else reason(error))
    except Exception as error:
        if type(error).__name__ == "OutOfMemoryError":  # torch's, which most scripts do not import
            _stop(f"out of memory of the GPU: {str(error).splitlines()[0]}")
        _bug()
    gc.freeze()  # Python would look through all that torch is made of for garbage, a quarter of a second, and then end
    sys.exit(status)


def _name(error: OSError) -> str:
    return plain(os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else str(error.filename))


def _stop(message: str, status: int = USER_ERROR_STATUS) -> None:
    if sys.stderr is not None:
        print(f"error: {message}", file=sys.stderr)
    sys.exit(status)


def _bug() -> None:
    traceback.print_exc()
    _stop(
        f"{BUG}, or of a process beside this one that stopped first and says why in its own "
        "lines. If there is none, please report the lines above and the command",
        BUG_STATUS,
    )
