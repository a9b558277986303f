"""A script, called in this process."""

import sys
from types import ModuleType


def call(module: ModuleType, **options: object) -> None:
    """Its main; a list is an option of many words."""
    arguments = []
    for name, value in options.items():
        arguments += [f"--{name.replace('_', '-')}", *map(str, value if isinstance(value, list) else [value])]
    old, sys.argv = sys.argv, ["script", *arguments]
    try:
        module.main()
    finally:
        sys.argv = old
