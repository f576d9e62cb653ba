"""Writes the Containerfile, which has a container engine build the same image by this program."""

import json
from collections.abc import Mapping
from pathlib import Path

from image import requirements, revision
from image.contents import PACKAGES, REPOSITORY, Contents

FILE = REPOSITORY / "Containerfile"
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "requirements-lock.txt")
"""What the build takes of the repository beside packages."""

TEMPLATE = """\
# Written by `make image-lock` from image/contents.toml. `make image` makes the same image without
# a container engine.
#   podman build --build-arg REVISION=$(git rev-parse HEAD) --tag {name}:{version} .

FROM {base} AS build
RUN apt-get update \\
 && apt-get install --yes --no-install-recommends ca-certificates python{python} python3-pip
RUN python{python} -m pip install --break-system-packages --no-cache-dir {builder}
WORKDIR /source
COPY {sources} ./
{copies}
RUN python{python} -m image root /image.tar \\
 && mkdir /image \\
 && tar --extract --file=/image.tar --directory=/image --same-permissions --numeric-owner \\
 && mkdir /owned \\
 && mv /image{workdir} /owned

FROM scratch
COPY --from=build /image /
COPY --from=build --chown={user} /owned {parent}
ARG REVISION={unknown}
ARG SOURCE={unknown}
LABEL {revision}=$REVISION
LABEL {source}=$SOURCE
{labels}
{environment}
{ports}
WORKDIR {workdir}
USER {user}
ENTRYPOINT {entrypoint}
CMD {command}
"""


def render(contents: Contents) -> str:
    """Render the Containerfile."""
    return TEMPLATE.format(
        name=contents.name,
        version=contents.version,
        base=contents.base,
        python=contents.python,
        builder=f"{requirements.BUILDER}=={requirements.read_lock()[requirements.BUILDER].version}",
        sources=" ".join(SOURCES),
        copies="\n".join(f"COPY {name} {name}" for name in ("image", *PACKAGES)),
        unknown=revision.UNKNOWN,
        revision=revision.REVISION,
        source=revision.SOURCE,
        labels=_render_lines("LABEL", contents.labels),
        environment=_render_lines("ENV", contents.environment),
        ports="\n".join(f"EXPOSE {port}" for port in contents.ports),
        workdir=contents.workdir,
        parent=f"{Path(contents.workdir).parent}/",
        user=contents.user,
        entrypoint=json.dumps(list(contents.entrypoint)),
        command=json.dumps(list(contents.command)),
    )


def _render_lines(instruction: str, values: Mapping[str, str]) -> str:
    lines = (f"{instruction} {key}={json.dumps(value)}" for key, value in sorted(values.items()))
    return "\n".join(lines)
