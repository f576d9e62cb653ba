"""The one door to a Kubernetes API: client, informer, work queue, objects, quantities, events."""
