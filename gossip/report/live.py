"""The page of runs that go on, served to browsers on this machine until Ctrl-C."""

import json
import time
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock

from gossip.errors import UserError
from gossip.report.page.build import numbers, page
from gossip.report.phase import phase
from gossip.report.runs import Run, load_runs

HOST = "127.0.0.1"
EVERY = 5
"""Seconds from one look of a browser to the next."""
_NAMES = (HOST, "localhost")


class Server(ThreadingHTTPServer):
    """Answers `/` with the page, and `/data.json` with what changes in it.

    Runs are read anew for each answer, one at a time. Only requests that call this machine by its
    own name are answered: a page from elsewhere whose name was made to point here is not.

    Args:
        paths: run or study folders.
        port: where it listens; 0: any that is free.
        settings: two, of a phase diagram.

    Raises:
        UserError: there is no such port, or it is in use.
    """

    daemon_threads = True

    def __init__(
        self, paths: Sequence[Path], port: int, settings: tuple[str, str] | None = None
    ) -> None:
        self._paths, self._settings, self._turn = paths, settings, Lock()
        try:
            super().__init__((HOST, port), _Answer)
        except OSError as error:
            raise UserError(
                f"cannot listen on port {port} ({error.strerror}): give another by --port, or 0 "
                "for any that is free"
            ) from error
        except OverflowError as error:
            raise UserError(f"port={port}: give one from 0 to 65535") from error

    @property
    def url(self) -> str:
        """Where a browser finds the page."""
        return f"http://{HOST}:{self.server_port}/"

    def answer(self, path: str) -> tuple[int, str, str]:
        """Status, type and text for a path."""
        makers: dict[str, tuple[str, Callable[[list[Run]], str]]] = {
            "/": ("text/html", self._page),
            "/data.json": ("application/json", lambda runs: json.dumps(numbers(runs))),
        }
        if path not in makers:
            return 404, "text/plain", "there is / and /data.json\n"
        kind, make = makers[path]
        try:
            with self._turn:
                return 200, kind, make(load_runs(self._paths))
        except UserError as error:  # a folder that is just being made, or is gone
            return 503, "text/plain", f"{error}\n"

    def _page(self, runs: list[Run]) -> str:
        diagram = phase(runs, *self._settings) if self._settings else None
        return page(runs, diagram, every=EVERY)


class _Answer(BaseHTTPRequestHandler):
    timeout = 30

    def do_GET(self) -> None:
        """Answer a browser."""
        if self.headers.get("Host", "").rpartition(":")[0] not in _NAMES:
            self.send_error(403, f"call it {HOST}")
            return
        assert isinstance(self.server, Server)
        status, kind, text = self.server.answer(self.path.partition("?")[0])
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        try:
            self.wfile.write(body)
        except ConnectionError:  # a browser that was closed meanwhile
            return

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing of each request."""


def serve(
    paths: Sequence[Path],
    port: int,
    settings: tuple[str, str] | None = None,
    say: Callable[[str], object] = print,
) -> None:
    """Serve the page of the runs in `paths` until Ctrl-C.

    Raises:
        KeyboardInterrupt: it was pressed.
        UserError: no run, an unreadable file, or a port that cannot be had.
    """
    load_runs(paths)
    with Server(paths, port, settings) as server:
        say(f"{time.strftime('%H:%M:%S')} {server.url} (until Ctrl-C)")
        server.serve_forever()
