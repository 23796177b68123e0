"""Takes an exclusive lock on an open file that the calling shell has handed down, and leaves.

The lock belongs to the open file, not to this process: it stays with the shell until that closes
the descriptor or ends. So there is no lock file to clean up after a crash.
"""

import fcntl
import signal
import sys


def hold(descriptor: int, waiting: str) -> None:
    """Locks the descriptor; prints `waiting` if another process has it, and waits."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print(waiting, file=sys.stderr, flush=True)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError as error:  # some network file systems
        print(f"no lock here ({error}); start one ./dev at a time", file=sys.stderr, flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    hold(int(sys.argv[1]), sys.argv[2])
