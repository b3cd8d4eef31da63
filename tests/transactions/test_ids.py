"""Transactional ids: expiry, forecast and what-if, families."""

import pytest

from sexton.as_text import DAY_MS
from sexton.transactions.ids import Family, expires_at_ms, family_of, floods, forecast
from sexton.transactions.states import TransactionState
from tests.transactions.logs import BASE_MS
from tests.transactions.test_verdicts import owner


@pytest.mark.parametrize(
    ("state", "expires"),
    [
        (TransactionState.EMPTY, True),
        (TransactionState.COMPLETE_COMMIT, True),
        (TransactionState.COMPLETE_ABORT, True),
        (TransactionState.ONGOING, False),
        (TransactionState.PREPARE_COMMIT, False),
        (TransactionState.PREPARE_ABORT, False),
        (TransactionState.DEAD, False),
    ],
)
def test_only_ids_whose_transaction_has_ended_expire(state: TransactionState, expires: bool) -> None:
    assert expires_at_ms(owner(state), expiration_ms=1_000) == (BASE_MS + 1_000 if expires else None)


def test_a_forecast_counts_what_is_due_by_horizon_and_by_another_expiration() -> None:
    ids = [owner(TransactionState.EMPTY, updated_at_ms=BASE_MS - days * DAY_MS) for days in range(8)] + [
        owner(TransactionState.ONGOING)
    ]
    found = forecast(ids, expiration_ms=7 * DAY_MS, now_ms=BASE_MS)
    assert (found.ids, found.open, found.due) == (9, 1, 1)  # due at the very millisecond
    assert found.within_days == {1: 2, 7: 8, 30: 8}
    assert forecast(ids, expiration_ms=DAY_MS, now_ms=BASE_MS).due == 7


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("payments", "payments"),
        ("payments-17", "payments-*"),
        ("app-2f1e4c3a-9b1d-4c55-8d2e-0123456789ab-3", "app-*-*"),
        ("sink-deadbeef01", "sink-*"),
        ("facade", "facade"),
        ("facadefacade", "facadefacade"),
        ("facadefacade-7", "facadefacade-*"),
        ("feeddeadbeef-dead-beef-dead-deadbeefdead", "feed*"),
        ("deadbeef-dead-beef-dead-deadbeefdead0cafe", "**cafe"),
    ],
)
def test_a_family_is_what_ids_share(name: str, family: str) -> None:
    assert family_of(name) == family


def test_the_family_of_a_hostile_id_takes_linear_time() -> None:
    """At a square of its length this would take hours; an id in a log is up to 32 KiB long, and there may be many."""
    name = "a" * 4_000_000
    assert family_of(name) == name
    assert family_of(f"{name}-{name}1-{name}") == f"{name}-*-{name}"


def test_a_flood_is_a_family_of_many_ids() -> None:
    ids = [owner(TransactionState.EMPTY)] * 3
    assert floods(ids, at_least=3) == [Family(family="payments", ids=3)]
    assert floods(ids) == []
