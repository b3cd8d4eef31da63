"""Settings of this process for a while, where a test's broker and Airflow have the same ones in their environment."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sexton.settings import settings


@contextmanager
def with_settings(**variables: str) -> Iterator[None]:
    """Variables of the environment, as sexton.settings reads them meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        settings.cache_clear()
        try:
            yield
        finally:
            patch.undo()
            settings.cache_clear()
