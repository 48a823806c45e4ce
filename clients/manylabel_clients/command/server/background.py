"""Background server process that keeps running after the command exits."""

import json
import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import httpx2

from manylabel_clients.command.failures import Failure
from manylabel_clients.command.output.progress import CompilingBar
from manylabel_clients.command.private import private
from manylabel_clients.command.server.program import SERVER, program
from manylabel_clients.http.errors import ManyLabelError
from manylabel_clients.http.transport.exchange import Reply, Request, compiling_in, failure

START_SECONDS = 300.0
"""Timeout in seconds for a start without progress; each compiled function is progress."""
_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Background:
    """Background server, whose data directory contains its log and its process id."""

    host: str
    port: int
    data_dir: Path

    @property
    def url(self) -> str:
        """Address of the server, from this machine."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    @property
    def log(self) -> Path:
        """Log of all runs of the server."""
        return self.data_dir / "server.log"

    @property
    def _pid_file(self) -> Path:
        return self.data_dir / "server.json"

    def is_running(self) -> bool:
        """Return whether a ManyLabel server, this one or another, responds at the address.

        Raises
        ------
        Failure
            If another program responds.
        """
        try:
            with httpx2.Client(trust_env=False, timeout=5) as http:
                answer = http.get(f"{self.url}/livez")
            is_ours = answer.status_code == 200 and answer.json() == {"live": True}
        except httpx2.ConnectError:
            return False
        except (httpx2.RequestError, ValueError):
            is_ours = False
        if not is_ours:
            raise Failure(f"another program has {self.host} port {self.port}: stop it, or choose another --port")
        return True

    def start(self) -> None:
        """Start the server in a separate session, and wait until it is ready. Raises the errors of `wait_ready`."""
        self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = ["--host", self.host, "--port", str(self.port), "--data-dir", str(self.data_dir)]
        with open(self.log, "ab", opener=private) as log:
            process = subprocess.Popen(
                program(SERVER, flags),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            self.wait_ready(process)
        except BaseException:
            process.terminate()
            process.wait()
            raise
        with open(self._pid_file, "w", opener=private) as file:
            json.dump({"pid": process.pid, "url": self.url}, file)

    def pid(self) -> int | None:
        """Return the process id, if the server was started by this command and still runs."""
        try:
            content = json.loads(self._pid_file.read_text())
            pid = int(content["pid"])
            os.kill(pid, 0)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return pid if content["url"] == self.url and _is_server(pid) else None

    def wait_ready(self, process: "subprocess.Popen[bytes] | None" = None) -> None:
        """Wait until the server is ready, and show the progress of its compilation.

        Parameters
        ----------
        process : process of the server, if this command started it.

        Raises
        ------
        Failure
            If the process exits; the message has its last output. If the server is not ready and has compiled nothing
            for `START_SECONDS`.
        """
        deadline, done = time.monotonic() + START_SECONDS, -1
        with httpx2.Client(trust_env=False, timeout=5) as http, CompilingBar() as bar:
            while (error := _not_ready(http, self.url)) is not None:
                if process is not None and process.poll() is not None:
                    raise Failure(f"the server could not start: {self._last_error()}")
                if (compiling := compiling_in(error)) is not None:
                    bar.draw(compiling)
                    if compiling.done > done:
                        deadline, done = time.monotonic() + START_SECONDS, compiling.done
                if time.monotonic() > deadline:
                    raise Failure(f"the server is not ready: {_waits_for(error)}; see {self.log}")
                time.sleep(_POLL_SECONDS)

    def _last_error(self) -> str:
        """Return the last error in the log of the server."""
        lines = self.log.read_text(errors="replace").splitlines()
        for line in reversed(lines[-20:]):
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if isinstance(entry, dict) and entry.get("error"):
                return str(entry["error"])
        return f"{lines[-1] if lines else 'it printed nothing'} ({self.log})"


def _not_ready(http: httpx2.Client, url: str) -> ManyLabelError | None:
    """Return the error with which a server responds while it is not ready; None if it is ready."""
    reply: Reply
    try:
        reply = http.get(f"{url}/readyz")
        if reply.is_success:
            return None
    except httpx2.RequestError as error:
        reply = error
    return failure(reply, Request("GET", "/readyz"))


def _waits_for(error: ManyLabelError) -> str:
    """Return a text about the work for which a server is not ready, after `START_SECONDS` without progress."""
    compiling = compiling_in(error)
    what = str(error) if compiling is None else f"{compiling}, and no more"
    return f"{what}, for {START_SECONDS:.0f} s"


def _is_server(pid: int) -> bool:
    """Return whether the process is a server, not another program with a reused process id; True if unknown."""
    try:
        return b"manylabel_service" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return not Path("/proc/self").exists()
