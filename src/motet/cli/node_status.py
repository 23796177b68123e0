"""What a node says about itself over HTTP, for commands that show it."""

from __future__ import annotations

from typing import Any

from motet.errors import NodeError

seconds_max = 5


def fetch_status(endpoint: str) -> dict[str, Any]:
    """The answer of ``/api/status``; ``NodeError`` when there is none."""
    import json
    import urllib.request

    from motet.client.link import HTTP_PORT_OFFSET, parse_endpoint

    host, port = parse_endpoint(endpoint)
    url = f"http://{host}:{port + HTTP_PORT_OFFSET}/api/status"
    try:
        with urllib.request.urlopen(url, timeout=seconds_max) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except (OSError, ValueError) as error:
        raise NodeError(
            f"{endpoint} does not say how it is: {error}", hint="is the node running there?"
        ) from None
