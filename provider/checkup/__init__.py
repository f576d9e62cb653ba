"""What would fail, before it does: a module for each thing that is checked."""
