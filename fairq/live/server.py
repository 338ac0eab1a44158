"""Serve a registry's metrics over HTTP, on a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CollectorRegistry, generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@contextmanager
def serving(registry: CollectorRegistry, port: int, address: str) -> Iterator[str]:
    """Serves ``/metrics`` while the context is open; gives its address. ``port`` 0: any free one.

    Always in the plain text format: in OpenMetrics, prometheus_client since 0.22 writes ``vllm_…`` for
    ``vllm:…`` to a Prometheus older than 3, and every query for the real names would find nothing.

    Raises
    ------
    OSError, OverflowError : cannot listen there.
    """
    server = _Server((address, port), registry)
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        host = f"[{address}]" if ":" in address else address
        yield f"http://{host}:{server.server_address[1]}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, where: tuple[str, int], registry: CollectorRegistry) -> None:
        self.registry = registry
        super().__init__(where, _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        if self.path.partition("?")[0] not in ("/metrics", "/"):
            self.send_error(404, "the page is /metrics")
            return
        content = generate_latest(self.server.registry)
        self.send_response(200)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """One line per scrape would bury what the command has to say."""
