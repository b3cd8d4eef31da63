"""The server of `sexton mcp`: the Model Context Protocol over stdio, or over HTTP on this machine's loopback address.

Questions are answered one at a time, in a thread, so that the connection stays alive meanwhile.
"""

import hmac
from typing import Any

import anyio
import jsonschema
import uvicorn
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from sexton import __version__
from sexton.cli.mcp_answers import ask, failure, fenced, output_schema
from sexton.cli.mcp_tools import NAMES, AgentInput, Tool
from sexton.errors import SextonError, UsageError
from sexton.ports import HOST

PATH = "/mcp"
INSTRUCTIONS = (
    "Sexton reads Kafka's __consumer_offsets and answers what tools for live lag cannot: why a group lost its offsets, "
    "what expires next, what other rules would delete, what was true at a past instant. Every tool only reads. Lists "
    f"come in pages: go on with page.next_cursor while you need more. {NAMES}"
)
_READ_ONLY = types.ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)


def tools_of(source: AgentInput) -> list[types.Tool]:
    """The tools that the input can answer, as an agent sees them."""
    return [
        types.Tool(
            name=tool.name,
            description=f"{tool.text} {NAMES}",
            input_schema=tool.input_schema,
            output_schema=output_schema(tool),
            annotations=_READ_ONLY,
        )
        for tool in source.tools().values()
    ]


def make_server(source: AgentInput) -> Server[Any]:
    """A server that answers from `source`."""
    one_at_a_time = anyio.CapacityLimiter(1)

    async def list_tools(_context: Any, _params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=await anyio.to_thread.run_sync(tools_of, source))

    async def call_tool(_context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            tool, given = _checked(source, params.name, params.arguments or {})
            found = await anyio.to_thread.run_sync(ask, tool, given, source, limiter=one_at_a_time)
        except SextonError as error:
            return types.CallToolResult(content=[_content(failure(error))], is_error=True)
        return types.CallToolResult(content=[_content(found)], structured_content=found)

    return Server(
        "sexton", version=__version__, instructions=INSTRUCTIONS, on_list_tools=list_tools, on_call_tool=call_tool
    )


def _checked(source: AgentInput, name: str, given: dict[str, Any]) -> tuple[Tool, dict[str, Any]]:
    """The tool, and arguments that fit its schema; else UsageError."""
    tools = source.tools()
    if name not in tools:
        raise UsageError("this input has no such tool", where=name, fix=f"one of {', '.join(tools)}")
    try:
        jsonschema.validate(given, tools[name].input_schema)
    except jsonschema.ValidationError as error:
        raise UsageError(error.message, where=".".join(map(str, error.path)) or name) from None
    return tools[name], given


def _content(document: object) -> types.ContentBlock:
    return types.TextContent(type="text", text=fenced(document))


def serve_stdio(source: AgentInput) -> None:
    """Serve the program that started this process, until it closes stdin."""
    server = make_server(source)

    async def serve() -> None:
        async with stdio_server() as (reader, writer):
            await server.run(reader, writer, server.create_initialization_options())

    anyio.run(serve)


def http_app(source: AgentInput, port: int, token: str) -> ASGIApp:
    """The server as an ASGI application for `port` of the loopback address. Requests need `token`. Any other Host or
    Origin is refused: a browser sends one for a page of another site, also after DNS rebinding."""
    names = [f"{host}:{port}" for host in (HOST, "localhost")]
    security = TransportSecuritySettings(allowed_hosts=names, allowed_origins=[f"http://{name}" for name in names])
    app = make_server(source).streamable_http_app(
        streamable_http_path=PATH, json_response=True, stateless_http=True, transport_security=security
    )
    return _TokenCheck(app, token)


def serve_http(source: AgentInput, port: int, token: str) -> None:
    """Serve on `port` of the loopback address until interrupted."""
    uvicorn.run(http_app(source, port, token), host=HOST, port=port, log_level="warning", access_log=False)


class _TokenCheck:
    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._expected = app, f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            given = Headers(scope=scope).get("authorization", "")
            if not hmac.compare_digest(given.encode(), self._expected):
                await Response("Unauthorized", 401, {"WWW-Authenticate": "Bearer"})(scope, receive, send)
                return
        await self._app(scope, receive, send)
