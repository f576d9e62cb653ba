"""Node mapping: which physical nodes stand behind which virtual node; a module a mode."""
