"""Prometheus' text format."""

from datetime import UTC, datetime

from prometheus_client.parser import text_string_to_metric_families

from vkubelet.server.exposition import Exposition


def test_text() -> None:
    text = Exposition()
    text.start_family("empty", "gauge", "Nothing.")
    text.start_family("a_total", "counter", "Of a.")
    text.add(1.5, time=datetime(2026, 1, 1, 0, 0, 0, 250_000, tzinfo=UTC))
    text.add(1e-6, [("b", "x"), ("a", "y")])
    text.start_family("b", "gauge", "Of b.")
    text.add(12)
    assert text.serialize().decode() == (
        "# HELP a_total Of a.\n"
        "# TYPE a_total counter\n"
        "a_total 1.5 1767225600250\n"
        'a_total{b="x",a="y"} 1e-06\n'
        "# HELP b Of b.\n"
        "# TYPE b gauge\n"
        "b 12\n"
    )


def test_label_values_are_escaped() -> None:
    text = Exposition()
    text.start_family("a", "gauge", "Of a.")
    value = 'back\\slash "quoted"\nline'
    text.add(1, [("l", value)])
    (family,) = text_string_to_metric_families(text.serialize().decode())
    assert family.samples[0].labels == {"l": value}


def test_nothing() -> None:
    assert Exposition().serialize() == b""
