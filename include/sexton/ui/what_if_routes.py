"""The what-if form and its answer, as a page and as JSON. It changes nothing; it is a POST because it is expensive."""

import re
from typing import Annotated, Any

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, Field

from sexton.errors import SextonError
from sexton.lake.branch import RunKey
from sexton.ui.parameters import AnyView, PublishedView
from sexton.ui.rendering import render
from sexton.ui.what_if_process import LONGEST_POLICY, MAX_MINUTES, BadQuestion, ask

pages = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)
api = APIRouter(prefix="/api", tags=["what if"])
_MINUTES = re.compile("[0-9]{1,20}")


class Question(BaseModel):
    """Rules to try: a retention in minutes, a policy as YAML, or both; what is left out stays as in force."""

    retention_minutes: int | None = Field(default=None, ge=1, le=MAX_MINUTES)
    policy: str = Field(default="", max_length=LONGEST_POLICY)


@pages.get("/what-if")
def show_form(view: PublishedView) -> str:
    return render(view, "what_if.html", page="what-if", policy="", answer=None, mistakes=(), status=200, minutes="")


@pages.post("/what-if")
def show_answer(
    request: Request,
    view: PublishedView,
    retention_minutes: Annotated[str, Form()] = "",
    policy: Annotated[str, Form()] = "",
) -> HTMLResponse:
    """The answer; 422 with the mistakes of the question, or 503 if it cannot be answered at the moment.

    Lengths are checked here and not by FastAPI, whose 422 is JSON: a form needs a readable message.
    """
    key, minutes, found, status = view.chosen.key, retention_minutes.strip(), None, 200
    mistakes: tuple[str, ...] = ()
    try:
        if minutes and not (_MINUTES.fullmatch(minutes) and 1 <= int(minutes) <= MAX_MINUTES):
            raise BadQuestion([view.texts("what_if.minutes_wrong", most=MAX_MINUTES)])
        if len(policy) > LONGEST_POLICY:
            raise BadQuestion([view.texts("what_if.policy_long", most=LONGEST_POLICY)])
        found = _ask(key, Question(retention_minutes=int(minutes) if minutes else None, policy=policy))
    except BadQuestion as error:
        mistakes, status = error.mistakes, 422
    except SextonError as error:
        mistakes, status = (str(error),), 503
    page = render(
        view,
        "_what_if.html" if request.headers.get("hx-target") == "answer" else "what_if.html",
        page="what-if",
        policy=policy,
        answer=found,
        mistakes=mistakes,
        status=status,
        minutes=minutes,
    )
    return HTMLResponse(page, status_code=status)


@api.post("/what-if")
def post_what_if(view: AnyView, question: Question) -> dict[str, Any]:
    """Who would lose what under other rules, at the instant of a published run; the groups that differ most."""
    return _ask(view.chosen.key, question)


def _ask(key: RunKey, asked: Question) -> dict[str, Any]:
    return ask(cluster_id=key.cluster_id, as_of_ms=key.as_of_ms, **asked.model_dump())
