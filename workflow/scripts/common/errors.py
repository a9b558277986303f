"""Errors that a user can mend: one line that names the file, the line or the key, and what to do."""

import sys
from collections.abc import Callable

USER_ERROR_STATUS = 2


class UserError(Exception):
    """The input or the configuration is wrong; the message says where and how to mend it."""


def run_main(main: Callable[[], int | None]) -> None:
    """Run a script's main and turn a UserError into one line on stderr and exit status 2."""
    try:
        sys.exit(main() or 0)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(USER_ERROR_STATUS)
