"""The thread that makes the next thing: the same things, the same errors, and nothing left behind."""

import threading
import time

import pytest

from engine.ahead import ahead


def threads() -> set[str]:
    return {thread.name for thread in threading.enumerate()}


@pytest.mark.parametrize("depth", [1, 3])
def test_the_same_things_in_the_same_order(depth):
    made = []

    def count():
        for number in range(50):
            made.append(number)
            yield number

    with ahead(count(), depth) as numbers:
        for expected, number in enumerate(numbers):
            assert number == expected
            assert len(made) <= number + 1 + depth
    assert made == list(range(50)) and "ahead" not in threads()


def test_one_is_made_while_the_last_is_used():
    begun = threading.Event()

    def two():
        yield 1
        begun.set()
        yield 2

    with ahead(two()) as numbers:
        assert next(numbers) == 1
        assert begun.wait(5)


def test_an_error_is_raised_where_its_thing_is_asked_for():
    def fails():
        yield 1
        raise ValueError("shard 3 is damaged")

    with ahead(fails()) as numbers:
        assert next(numbers) == 1
        with pytest.raises(ValueError, match="shard 3 is damaged"):
            next(numbers)
    assert "ahead" not in threads()


def test_an_end_in_the_middle_leaves_nothing_running():
    made = []

    def slow():
        number = 0
        while True:
            made.append(number)
            time.sleep(0.01)
            yield number
            number += 1

    with pytest.raises(KeyboardInterrupt), ahead(slow()) as numbers:
        assert next(numbers) == 0
        raise KeyboardInterrupt
    assert "ahead" not in threads()
    at_the_end = len(made)
    time.sleep(0.05)
    assert len(made) == at_the_end <= 3
