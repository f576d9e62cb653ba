"""How a remote pod is confined to the physical nodes behind a virtual node."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from vkubelet.kube.objects import KubeObject
from vkubelet.kube.selector import Operator, Requirement, Selector

NAME_FIELD = "metadata.name"
"""The only field that the API takes in matchFields, and it takes one name a requirement."""


@dataclass(frozen=True, slots=True)
class SelectionTerm:
    """
    Requirements that must all hold; an empty term holds for every node.

    Attributes:
        requirements: On the node's labels (matchExpressions).
        node_name: The one node that is meant (matchFields), None for any.
    """

    requirements: tuple[Requirement, ...] = ()
    node_name: str | None = None

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether a node of that name and labels satisfies the term."""
        if self.node_name is not None and self.node_name != name:
            return False
        return all(requirement.matches(labels) for requirement in self.requirements)

    def build(self) -> KubeObject:
        """Build the NodeSelectorTerm; an empty one would match nothing, so it must not be empty."""
        term: KubeObject = {}
        if self.requirements:
            term["matchExpressions"] = [build_requirement(item) for item in self.requirements]
        if self.node_name is not None:
            term["matchFields"] = [
                build_requirement(Requirement(NAME_FIELD, Operator.IN, (self.node_name,)))
            ]
        assert term, "a term without requirements can't be written as a NodeSelectorTerm"
        return term


@dataclass(frozen=True, slots=True)
class Selection:
    """ORed terms; no terms at all select no node."""

    terms: tuple[SelectionTerm, ...] = ()

    @classmethod
    def of_all(cls) -> "Selection":
        """Every node."""
        return cls((SelectionTerm(),))

    @classmethod
    def of_requirements(cls, requirements: Iterable[Requirement]) -> "Selection":
        """Nodes whose labels satisfy all of the requirements."""
        return cls((SelectionTerm(tuple(requirements)),))

    @classmethod
    def of_selector(cls, selector: Selector) -> "Selection":
        """Nodes that the label selector selects."""
        return cls.of_requirements(selector.requirements)

    @classmethod
    def of_names(cls, names: Iterable[str]) -> "Selection":
        """Exactly the nodes of these names."""
        return cls(tuple(SelectionTerm(node_name=name) for name in names))

    def and_requirements(self, requirements: Iterable[Requirement]) -> "Selection":
        """Return the nodes of this selection that also satisfy the requirements."""
        return self.intersect(Selection.of_requirements(requirements))

    def intersect(self, other: "Selection") -> "Selection":
        """Return the nodes that both select: every term of one with every term of the other."""
        crossed = (_merge(left, right) for left in self.terms for right in other.terms)
        return Selection(tuple(dict.fromkeys(term for term in crossed if term is not None)))

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether a node of that name and labels is selected."""
        return any(term.matches(name, labels) for term in self.terms)

    def build_terms(self) -> list[KubeObject]:
        """Build the NodeSelectorTerms."""
        return [term.build() for term in self.terms]


def build_requirement(requirement: Requirement) -> KubeObject:
    """Build a NodeSelectorRequirement."""
    built: KubeObject = {"key": requirement.key, "operator": requirement.operator.value}
    if requirement.values:
        built["values"] = list(requirement.values)
    return built


def _merge(left: SelectionTerm, right: SelectionTerm) -> SelectionTerm | None:
    """Return the conjunction, None if two different names leave nothing."""
    names = {term.node_name for term in (left, right)} - {None}
    if len(names) > 1:
        return None
    requirements = tuple(dict.fromkeys(left.requirements + right.requirements))
    return SelectionTerm(requirements, next(iter(names), None))
