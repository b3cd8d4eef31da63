"""`python -m sexton_dev.broker` before it starts anything; tests/integration/test_broker.py starts brokers."""

import sys

import pytest

from sexton_dev import broker


@pytest.mark.parametrize("text", ["retention", "=1", ""])
def test_properties_are_pairs(text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["broker", text])
    with pytest.raises(SystemExit) as ended:
        broker.main()
    assert ended.value.code == 2
    assert "not NAME=VALUE" in capsys.readouterr().err
