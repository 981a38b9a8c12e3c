"""The remembered output of Kafka's storage tool gives the same directory as the tool."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2k_assets.core.errors import K2KError
from k2k_assets.sandbox import Broker
from k2k_assets.sandbox.formatting import format_data, is_formatted
from k2k_assets.sandbox.jars import fetch_jars


def _ids(data: Path) -> dict[str, str]:
    lines = (data / "meta.properties").read_text().splitlines()
    return dict(line.split("=") for line in lines if not line.startswith("#"))


@pytest.mark.slow
@pytest.mark.integration
def test_it_is_as_the_tool_makes_it_and_a_broker_starts_on_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jars = tmp_path / "jars"
    jars.symlink_to(fetch_jars())
    monkeypatch.setattr("k2k_assets.sandbox.broker.fetch_jars", lambda _manifest: jars)
    first, second = (Broker("source", tmp_path / name) for name in ("first", "second"))
    made = []
    for broker in (first, second):
        broker.start()
        broker.stop()
        made.append(_ids(broker.directory / "data"))
    assert "Formatting metadata directory" in first.log_file.read_text()
    assert "Formatting metadata directory" not in second.log_file.read_text(), "no second Java was started"
    by_tool, by_what_was_kept = made
    assert by_what_was_kept.keys() == by_tool.keys()
    assert {name for name in by_tool if by_tool[name] != by_what_was_kept[name]} == {"cluster.id", "directory.id"}
    assert (by_tool["cluster.id"], by_what_was_kept["cluster.id"]) == (first.cluster_id, second.cluster_id)


def test_the_tool_is_asked_until_it_has_done_it_once(tmp_path: Path) -> None:
    jars, asked = tmp_path / "jars", []

    def tool(data: Path, works: bool) -> None:
        asked.append(data)
        if not works:
            raise K2KError("no Java, say")
        data.mkdir()
        (data / "bootstrap.checkpoint").write_bytes(b"features")
        (data / "meta.properties").write_text("version=1\n")

    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    with pytest.raises(K2KError):
        format_data(first, "one", jars, lambda: tool(first, works=False))
    assert not is_formatted(first)
    format_data(second, "two", jars, lambda: tool(second, works=True))
    format_data(third, "three", jars, lambda: tool(third, works=True))
    assert asked == [first, second]
    assert (third / "bootstrap.checkpoint").read_bytes() == b"features"
    assert _ids(third)["cluster.id"] == "three"
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["jars-bootstrap.checkpoint"]
