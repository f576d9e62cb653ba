"""Writes docs/configuration.md: `python -m tests.docs.configuration_page`."""

from pathlib import Path
from typing import Any

from provider.config import Config, config_fields

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"

HEAD = """# Configuration

Each value can stand in a file (`--config FILE`, YAML), in the environment, or on the command line;
a flag wins over the environment, and that over the file. Everything is checked before anything
starts: unknown keys, misspelt `VKUBELET_…` variables, contradictions and bad values end with exit
code 2 and a line that names the flag, variable or key.

`vkubelet run` takes all of it. `vkubelet check` takes what matters to what it looks at, `vkubelet
plan` the remote cluster, the virtual nodes and what they offer, `vkubelet teardown` the two
clusters, `vkubelet status` the home cluster. All of them can share a file and an environment: what
a command doesn't need it doesn't look at.

In a file, keys are grouped:

```yaml
remote:
  cluster: cloud
  kubeconfig: /etc/vkubelet/remote/kubeconfig
namespaces:
  names: [demo]
nodes:
  tolerate: ["nvidia.com/gpu:NoSchedule"]
```

In the environment, a flag that can be repeated takes several values separated by `;`.
`VKUBELET_CONFIG` names the file.
"""

TABLE = "\n## {title}\n\n| flag | key | variable | |\n|---|---|---|---|\n"
ROW = "| `{flag}` | `{key}` | `{variable}` | {text} |\n"


def render() -> str:
    """Render the page."""
    parts = [HEAD]
    section = ""
    for item in config_fields():
        if item.path[0] != section:
            section = item.path[0]
            model: Any = Config.model_fields[section].annotation
            parts.append(TABLE.format(title=model.__doc__.rstrip(".")))
        parts.append(
            ROW.format(
                flag=f"{item.flag.name} {item.flag.metavar}".strip(),
                key=".".join(item.path),
                variable=item.flag.variable,
                text=item.help.replace("|", "\\|"),
            )
        )
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
