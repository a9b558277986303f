"""One thing ahead: a thread makes the next one while this one is used."""

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def ahead(made: Iterator[T], depth: int = 1) -> Iterator[Iterator[T]]:
    """The same things in the same order; `depth` of them, at most, are made before they are asked for.

    What goes wrong in the thread is raised where the thing is asked for. At the end nothing is left running.
    """
    ready: queue.SimpleQueue[tuple[bool, T | BaseException | None]] = queue.SimpleQueue()
    room = threading.Semaphore(depth)
    over = threading.Event()

    def make() -> None:
        try:
            while True:
                room.acquire()
                if over.is_set():
                    return
                ready.put((True, next(made)))
        except StopIteration:
            ready.put((False, None))
        except BaseException as error:
            ready.put((False, error))

    def taken() -> Iterator[T]:
        while True:
            is_one, one = ready.get()
            if not is_one:
                if one is not None:
                    raise one
                return
            room.release()
            yield one

    thread = threading.Thread(target=make, name="ahead", daemon=True)
    thread.start()
    try:
        yield taken()
    finally:
        over.set()
        room.release()
        thread.join()
