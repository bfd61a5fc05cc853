"""The command `plimsoll`."""

import os
import sys

from ._plimsoll import run_command


def main() -> None:
    """Runs the command with this program's arguments and exits with its code."""
    # NVLink multicast stays off in NCCL, unless the user has decided.
    if not os.environ.get("NCCL_NVLS_ENABLE"):
        os.environ["NCCL_NVLS_ENABLE"] = "0"
    sys.exit(run_command(["plimsoll", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
