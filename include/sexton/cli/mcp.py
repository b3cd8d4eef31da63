"""`sexton mcp`: a server that lets agents ask, and change nothing."""

import secrets
from pathlib import Path
from typing import Annotated

from sexton.cli.command import Without
from sexton.cli.input_options import LogInput
from sexton.cli.options import INPUT, Json, PolicyFile, RetentionMinutes, check_profile, check_topics_file, option
from sexton.cli.output import print_aside, print_json
from sexton.errors import SetupError, UsageError

_HTTP = "HTTP"


def mcp(
    *,
    log: Annotated[LogInput, Without({"as_of"})],
    replica: list[str] | None = option(
        "--replica DIR[,DIR...]",
        "A copy of a broker's log directories, for the comparison of replicas; give two or more.",
        INPUT,
    ),
    retention_minutes: RetentionMinutes = None,
    policy: PolicyFile = None,
    http: int | None = option(
        "--http PORT", "Serve http://127.0.0.1:PORT/mcp instead of stdin and stdout.", _HTTP, min=1, max=65_535
    ),
    token_file: Path | None = option(
        "--token-file FILE",
        "A file with the token for HTTP requests. Default: SEXTON_MCP_TOKEN, else a new one, printed on stderr.",
        _HTTP,
    ),
    json: Json = False,
) -> int:
    """Serve agents over the Model Context Protocol: why offsets are lost, what expires next, what other rules would do.

    An agent can only ask about the input that you give here, or about the published tables if you give none. All tools
    are read-only. --json prints the tools for that input, with their schemas, and exits. Needs Sexton's extra `mcp`.

    # from the archive, over stdin and stdout, as agents start it
    sexton mcp --archive s3://keep/offsets

    # a run of sexton audit for quick forecasts, and its log for histories
    sexton mcp --run audit --segments /var/kafka-logs

    # over HTTP on this machine only
    sexton mcp --archive archive --http 8931 --token-file mcp.token

    # which tools does this input have?
    sexton mcp --archive archive --json
    """
    from sexton.cli.mcp_tools import AgentInput

    if log.segments is not None and log.archive is not None:
        raise UsageError("give --segments DIR or --archive URI, not both", fix="see `sexton mcp --help`")
    if token_file is not None and http is None:
        raise UsageError("applies only to HTTP", where="--token-file", fix="give --http PORT")
    if replica is not None and len(replica) < 2:
        raise UsageError("one replica has nothing to differ from", where="--replica", fix="give two or more")
    check_profile(log.profile)
    check_topics_file(log.topics)
    if log.archive is None:
        log.check_cluster()
    source = AgentInput(log=log, replicas=replica or [], retention_minutes=retention_minutes, policy=policy)
    try:
        from sexton.cli.mcp_server import PATH, serve_http, serve_stdio, tools_of
    except ModuleNotFoundError as error:
        raise SetupError(f"the package {error.name} is missing", fix="pip install 'sexton[mcp]'") from None
    if json:
        tools = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools_of(source)]
        print_json({"tools": tools})
    elif http is None:
        serve_stdio(source)
    else:
        token = _token(token_file)
        print_aside(f"http://127.0.0.1:{http}{PATH}")
        serve_http(source, http, token)
    return 0


def _token(file: Path | None) -> str:
    """The token of the file, else of the settings, else a new one, which is printed."""
    from sexton.settings import settings

    given = file.read_text(encoding="ascii").strip() if file is not None else settings().mcp_token
    if given:
        return given
    if file is not None:
        raise UsageError("no token in it", where=file, fix="write one line of letters and digits")
    token = secrets.token_urlsafe(32)
    print_aside(f"Authorization: Bearer {token}")
    return token
