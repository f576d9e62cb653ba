"""Remote namespaces, and what becomes of pods in them."""
