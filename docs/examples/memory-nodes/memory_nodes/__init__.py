"""An example of a provider: one node, whose pods run nowhere but in its memory."""
