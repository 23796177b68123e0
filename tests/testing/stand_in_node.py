"""What a local cluster needs of a node, and nothing else: takes the flags, binds the ports, says it is ready.

``--mode``: ``deaf`` ignores SIGTERM, ``never`` is never ready, ``fails`` ends at once.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

parser = argparse.ArgumentParser()
for flag in ("--id", "--data", "--peers", "--roles"):
    parser.add_argument(flag, required=True)
parser.add_argument("--port", type=int, required=True)
parser.add_argument("--mode", default="")
options = parser.parse_args()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        ready = options.mode != "never"
        self.send_response(200 if ready else 503)
        self.end_headers()
        about = {**vars(options), "pid": os.getpid(), "folder": str(Path.cwd())}
        about["colour"] = os.environ.get("COLOUR")
        self.wfile.write(json.dumps(about).encode() if ready else b"still thinking")

    def log_message(self, *parts: object) -> None:
        print(*parts, flush=True)


print(f"{options.id} starts", flush=True)
if options.mode == "fails":
    sys.exit("no luck today")
if options.mode == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
else:
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
with Path(options.data, "starts").open("a") as starts:
    starts.write("x")
with socket.create_server(("127.0.0.1", options.port)):
    HTTPServer(("127.0.0.1", options.port + 3), Handler).serve_forever()
