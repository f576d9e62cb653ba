from provider.mapping.errors import MappingError
from vkubelet.errors import VkubeletError


def test_mapping_errors_are_ours() -> None:
    assert issubclass(MappingError, VkubeletError)
    assert str(MappingError("change this")) == "change this"
