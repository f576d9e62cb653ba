"""Types of fields that go with what holds them."""

from provider.translation.fields import FIELDS_BY_TYPE
from provider.translation.nested_fields import NESTED_FIELDS


def test_each_type_has_one_table() -> None:
    assert NESTED_FIELDS.keys().isdisjoint(FIELDS_BY_TYPE)


def test_every_field_is_named_once() -> None:
    for kind, names in NESTED_FIELDS.items():
        assert names, kind
        assert len(set(names)) == len(names), kind


def test_secrets_of_volume_drivers_are_named_as_the_translation_looks_for_them() -> None:
    """It finds them by the names of their fields, in whatever driver."""
    naming = {
        (kind, name)
        for kind, names in NESTED_FIELDS.items()
        for name in names
        if "secret" in name.lower() and kind.endswith("VolumeSource")
    }
    assert naming == {
        ("AzureFileVolumeSource", "secretName"),
        ("CSIVolumeSource", "nodePublishSecretRef"),
        ("CephFSVolumeSource", "secretFile"),  # a path
        ("CephFSVolumeSource", "secretRef"),
        ("CinderVolumeSource", "secretRef"),
        ("FlexVolumeSource", "secretRef"),
        ("ISCSIVolumeSource", "secretRef"),
        ("RBDVolumeSource", "secretRef"),
        ("ScaleIOVolumeSource", "secretRef"),
        ("SecretVolumeSource", "secretName"),
        ("StorageOSVolumeSource", "secretRef"),
    }
