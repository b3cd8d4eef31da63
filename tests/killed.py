"""A death within the process of the test."""


class Killed(BaseException):
    """As a process that is gone: nothing catches it."""
