"""Opens what questions are asked of: a log, an archive or a run."""

from sexton.errors import UsageError
from sexton.views.view import CoordinatorView, ViewRequest


def open_view(request: ViewRequest) -> CoordinatorView:
    """Open what the request names; UsageError for one that does not fit together."""
    given = [place for place in (request.segments, request.archive, request.run) if place is not None]
    if len(given) != 1:
        raise UsageError(
            "give one of --segments DIR, --archive URI and --run DIR", fix="a run is what `sexton audit --out` has left"
        )
    # Only what is asked for is imported: a run needs nothing that reads a log, which takes longest to load.
    if request.run is not None:
        from sexton.views.run_view import view_of_run

        return view_of_run(request, request.run)
    from sexton.views.log_view import view_of_log

    return view_of_log(request)
