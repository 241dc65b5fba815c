"""An MCP server that misbehaves as it is told: the older protocol over stdio, by hand."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FAULT = sys.argv[1]
STATE = Path(sys.argv[2]) if len(sys.argv) > 2 else None
SCHEMA = {"type": "object"}


def answer(request: dict[str, Any]) -> dict[str, Any]:
    method, params = request["method"], request.get("params") or {}
    if method == "initialize":
        return {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "faulty", "version": "1"},
        }
    if method == "tools/list":
        return listed(params.get("cursor"))
    if method == "tools/call":
        return called(params["name"])
    raise LookupError(method)


def listed(cursor: str | None) -> dict[str, Any]:
    if FAULT == "pages without an end":
        return {"tools": [], "nextCursor": f"{cursor}+"[-300:]}
    if FAULT == "pages in a circle":
        page = int(cursor or 0)
        return {"tools": [tool(f"page{page}")], "nextCursor": str((page + 1) % 3)}
    if FAULT == "names that clash":
        names = ["a.b", "a/b", "a_b", "1st", "", "x" * 70, "x" * 71, "größe"]
        return {"tools": [tool(name) for name in names]}
    typed = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    return {
        "tools": [tool("pid"), tool("odd"), {**tool("typed"), "outputSchema": typed}, tool("quit")]
    }


def tool(name: str) -> dict[str, Any]:
    return {"name": name, "inputSchema": SCHEMA}


def called(name: str) -> dict[str, Any]:
    if name == "odd":
        return {"content": [{"type": "hologram"}]}
    if name == "typed":
        return {"content": [], "structuredContent": {"n": "no number"}}
    if name == "quit":
        os._exit(1)
    return {"content": [{"type": "text", "text": str(os.getpid())}]}


def requests() -> Iterator[dict[str, Any]]:
    for line in sys.stdin:
        yield json.loads(line)


def main() -> None:
    if FAULT == "no start":
        sys.exit("no key: set FAULTY_KEY")
    if FAULT == "starts once" and STATE is not None:
        if STATE.exists():
            sys.exit("the lock is taken")
        STATE.touch()
    for request in requests():
        if FAULT == "silence" or "id" not in request:
            continue
        if FAULT == "chatter":
            sys.stdout.write("Listening on nothing!\n\n{}\n")
        reply = {"jsonrpc": "2.0", "id": request["id"]}
        try:
            reply["result"] = answer(request)
        except LookupError as error:
            reply["error"] = {"code": -32601, "message": f"no method {error}"}
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
