"""The command `plimsoll`."""

import sys

from ._plimsoll import run_command


def main() -> None:
    """Runs the command with this program's arguments and exits with its code."""
    sys.exit(run_command(["plimsoll", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
