"""One node of a local cluster: a real process, its folder, its log, and what can be done to it."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from motet.errors import BadInput, NodeError
from motet.testing.port_block import HOST, HTTP_PORT, PortBlock
from motet.testing.reaper import Reaper

LOG_TAIL_LINES = 30
PROBE_S_MAX = 2.0
PROBE_EVERY_S = 0.02


class LocalNode:
    """A process that is started with ``command`` in ``folder``, as often as one likes."""

    def __init__(
        self,
        name: str,
        folder: Path,
        block: PortBlock,
        command: Sequence[str],
        environment: Mapping[str, str],
        reaper: Reaper,
    ) -> None:
        self.name = name
        self.folder = folder
        self.block = block
        self.log_path = folder / "node.log"
        self.pid_path = folder / "pid"
        self._command = list(command)
        self._environment = {**os.environ, **environment}
        self._reaper = reaper
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"{HOST}:{self.block.base}"

    @property
    def http_endpoint(self) -> str:
        return f"{HOST}:{self.block.base + HTTP_PORT}"

    # Starting

    def start(self, arguments: Sequence[str] = ()) -> None:
        """Start the process, this once with further arguments, and return at once."""
        if self.is_running():
            raise BadInput(f"{self.name} runs already", hint="kill it first, or call restart")
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._command, *arguments],
                cwd=self.folder,  # so that no motet.toml of the caller is found
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # ^C in the terminal is for the test alone
            )
        self._reaper.started(self._process.pid)
        self.pid_path.write_text(f"{self._process.pid}\n")

    def wait_ready(self, wait_s: float) -> None:
        """Wait until ``/readyz`` answers 200; ``NodeError`` with the end of the log if it does not."""
        process = self._started()
        deadline = time.monotonic() + wait_s
        while True:
            why = self._why_not_ready()
            if process.poll() is not None:
                raise self._failed(f"ended with status {process.returncode} before it was ready")
            if why is None:
                return
            if time.monotonic() > deadline:
                raise self._failed(f"is not ready after {wait_s} s ({why})")
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(PROBE_EVERY_S)

    def _why_not_ready(self) -> str | None:
        host, _, port = self.http_endpoint.partition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=PROBE_S_MAX)
        try:
            connection.request("GET", "/readyz")
            answer = connection.getresponse()
            said = answer.read().decode(errors="replace")
            return None if answer.status == http.HTTPStatus.OK else f"{answer.status} {said}"
        except (OSError, http.client.HTTPException) as error:
            return f"{type(error).__name__}: {error}"
        finally:
            connection.close()

    # Ending and holding

    def kill(self) -> None:
        """SIGKILL; gone when this returns."""
        process = self._started()
        process.kill()
        self._has_ended(process)

    def terminate(self, wait_s: float) -> int:
        """SIGTERM; returns the exit status, ``NodeError`` if it has not ended in time."""
        process = self._started()
        process.terminate()
        process.send_signal(signal.SIGCONT)  # one that is stopped could not obey
        try:
            process.wait(wait_s)
        except subprocess.TimeoutExpired:
            raise self._failed(f"has not ended {wait_s} s after SIGTERM") from None
        return self._has_ended(process)

    def stop(self) -> None:
        """SIGSTOP: it keeps its connections and does nothing."""
        process = self._started()
        process.send_signal(signal.SIGSTOP)
        if hasattr(os, "waitid"):  # from here on it really does nothing
            os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def cont(self) -> None:
        """SIGCONT: it goes on as if no time had passed."""
        self._started().send_signal(signal.SIGCONT)

    def end(self) -> None:
        """Kill it if it runs."""
        if self._process is not None:
            self._process.kill()
            self._has_ended(self._process)

    def _has_ended(self, process: subprocess.Popen[bytes]) -> int:
        status = process.wait()
        self._reaper.ended(process.pid)
        self.pid_path.unlink(missing_ok=True)
        self._process = None
        return status

    # Looking

    def is_running(self) -> bool:
        """Whether there is a process, stopped or not."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._started().pid

    def log(self) -> str:
        """All it has printed, over all its incarnations."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise BadInput(f"{self.name} does not run", hint="call restart")
        return self._process

    def _failed(self, what: str) -> NodeError:
        tail = "\n".join(self.log().splitlines()[-LOG_TAIL_LINES:])
        return NodeError(f"{self.name} {what}; its log ends with:\n{tail}\n", hint="read the log")
