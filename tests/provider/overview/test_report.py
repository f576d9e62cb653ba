"""The overview as programs get it."""

from provider.overview.collect import build_overview
from provider.overview.report import encode_overview
from provider.vitals import ApiErrors, Lag, Vitals
from tests.provider.overview.values import NOW, build_lock, build_pod, build_virtual_node

VITALS = Vitals(
    version="0.1.0",
    started_at="2027-01-01T09:00:00Z",
    api_errors={"home": ApiErrors(recent=1, total=5)},
    create_lag=Lag(p50=0.01, p99=0.2),
)


def test_encoded() -> None:
    pod = build_pod("web", phase="Pending", reason="Missing", message="of it")
    overview = build_overview(
        [build_virtual_node("cloud")], [pod], [build_lock(vitals=VITALS)], NOW
    )
    encoded = encode_overview(overview)
    assert encoded["takenAt"] == "2027-01-01T12:00:00Z"
    (peering,) = encoded["peerings"]
    assert peering["locks"] == [
        {
            "lease": "kube-system/vkubelet-cloud",
            "holder": "vkubelet-0_1",
            "renewedAt": "2027-01-01T11:59:57Z",
            "fresh": True,
        }
    ]
    assert peering["process"]["apiErrors"] == {"home": {"recent": 1, "total": 5}}
    assert peering["process"]["createLag"] == {"p50": 0.01, "p99": 0.2}
    assert peering["pods"] == {"Pending": 1}
    assert peering["podReasons"] == [
        {
            "phase": "Pending",
            "reason": "Missing",
            "count": 1,
            "example": "demo/web",
            "message": "of it",
        }
    ]
    (node,) = peering["virtualNodes"]
    assert node["allocatable"] == {"cpu": "3500m", "memory": "12Gi", "pods": "88"}
    assert node["largestFreeNode"]["name"] == "ssd-1"
    assert encoded["trouble"] == ""


def test_trouble_keeps_what_was_seen() -> None:
    overview = build_overview([build_virtual_node("cloud")], [], [], NOW)
    later = encode_overview(overview.with_trouble("gone"))
    assert later["trouble"] == "gone"
    assert later["peerings"] == encode_overview(overview)["peerings"]
