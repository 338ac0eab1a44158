"""A real Prometheus on loopback with a folder of its own, and the few calls of its API that tests need."""

import json
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
import yaml

DATA = Path(__file__).resolve().parents[2] / "data"

needs_prometheus = pytest.mark.skipif(
    not (shutil.which("prometheus") and shutil.which("promtool")),
    reason="needs prometheus and promtool (Debian: apt-get install prometheus)",
)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(what, deadline_s=60.0, every_s=0.1):
    """The first true value of ``what()``; fails at the deadline."""
    end = time.monotonic() + deadline_s
    while True:
        try:
            found = what()
        except OSError:
            found = None
        if found:
            return found
        assert time.monotonic() < end, f"not within {deadline_s} s"
        time.sleep(every_s)


class Prometheus:
    """Started with the project's own scrape config and rules, changed as little as a test needs."""

    def __init__(self, folder, target, rules, interval="1s"):
        config = yaml.safe_load((DATA / "prometheus" / "prometheus.yml").read_text())
        config["global"] = {"scrape_interval": interval, "evaluation_interval": interval}
        config["scrape_configs"][0]["static_configs"][0]["targets"] = [target]
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        (folder / "fairq.rules.yml").write_text(
            rules or (DATA / "prometheus" / "fairq.rules.yml").read_text()
        )
        self.url = f"http://127.0.0.1:{free_port()}"
        self.log = folder / "log"
        command = [
            "prometheus",
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={self.url.removeprefix('http://')}",
        ]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

    def __enter__(self):
        until(lambda: urllib.request.urlopen(f"{self.url}/-/ready").status == 200)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(30)

    def get(self, path, **parameters):
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url) as answer:
            document = json.load(answer)
        assert document["status"] == "success"
        return document["data"]

    def query(self, expression, at=None):
        """Instant vector or range vector: a list of (labels, value or [(time, value), …])."""
        data = self.get("query", query=expression, **({} if at is None else {"time": f"{at:.3f}"}))
        assert data["resultType"] in ("vector", "matrix")
        if data["resultType"] == "matrix":
            return [(row["metric"], [(t, float(v)) for t, v in row["values"]]) for row in data["result"]]
        return [(row["metric"], float(row["value"][1])) for row in data["result"]]
