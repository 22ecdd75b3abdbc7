"""Starting and ending the service as a process, and talking to it over a real connection."""

import json
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "process" / "service_process.py"
GENEROUS = {"requests_per_s": 1e6}


class Process:
    """A running service: where it listens, the administrator's token, and what it said."""

    def __init__(self, folder, topology="testbed", **settings):
        self.folder = folder
        self.errors = (folder.parent / f"{folder.name}.err").open("a+")
        arguments = [str(folder), topology, json.dumps(GENEROUS | settings)]
        self.process = subprocess.Popen(
            [sys.executable, str(SCRIPT), *arguments], stdout=subprocess.PIPE, stderr=self.errors, text=True
        )
        self.said = []
        for line in self.process.stdout:
            self.said.append(line.strip())
            if line.strip() == "ready":
                break
        else:
            self.process.wait()
            raise AssertionError(f"the service did not start: {self.said} {self.log()}")
        self.url = self.said[0].split()[2]
        self.token = (folder / "admin.token").read_text().strip()

    @property
    def headers(self):
        return {"Authorization": f"Bearer {self.token}"}

    def log(self):
        self.errors.seek(0)
        return self.errors.read()

    def kill(self):
        self.process.kill()
        self._gone()

    def stop(self, number=signal.SIGTERM, seconds=15):
        """Ask it to stop, and return its exit code."""
        self.process.send_signal(number)
        return self._gone(seconds)

    def _gone(self, seconds=15):
        try:
            return self.process.wait(seconds)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            self.process.stdout.close()
            self.errors.close()


@contextmanager
def service(folder, **more):
    process = Process(folder, **more)
    try:
        yield process
    finally:
        process.kill()
