"""`vkubelet status`: show what there is of the peerings of a home cluster; changes nothing."""

import asyncio
import sys

from rich.console import Console
from rich.live import Live

from provider.app import load_home_access
from provider.command_config import StatusConfig
from provider.commands.launch import run_to_end
from provider.commands.output import open_console, print_encoded
from provider.commands.status_table import build_overview_table
from provider.errors import StartError
from provider.overview.collect import take_overview
from provider.overview.report import Overview, encode_overview
from vkubelet.kube.client import KubeClient
from vkubelet.kube.errors import KubeError
from vkubelet.times import utc_now

WATCH_SECONDS = 2.0


def main(config: StatusConfig, *, output: str, watch: bool) -> int:
    """
    Print the status, once or until Ctrl-C.

    Args:
        config: Which cluster and peering.
        output: "table", "json" or "yaml".
        watch: Whether to go on; JSON and YAML come as a document after another.

    Raises:
        StartError: If the home cluster can't be looked at.
    """
    run_to_end(lambda: show_status(config, output=output, watch=watch))
    return 0


async def show_status(config: StatusConfig, *, output: str, watch: bool) -> None:
    """
    Print the status, in a running loop; see `main`.

    Raises:
        StartError: If the home cluster can't be looked at.
    """
    try:
        access = await load_home_access(config.home)
        async with KubeClient(access, name="home") as home:
            overview = await _look(home, config)
            if not watch:
                _print(overview, output, open_console())
            elif output == "table" and sys.stdout.isatty():
                await _follow_live(home, config, overview)
            else:
                await _follow(home, config, overview, output)
    except KubeError as error:
        raise StartError(f"home: {error}") from error


async def _look(home: KubeClient, config: StatusConfig) -> Overview:
    return await take_overview(home, config.remote.cluster, config.home.system_namespace, utc_now())


def _print(overview: Overview, output: str, console: Console) -> None:
    if output == "table":
        console.print(build_overview_table(overview))
    else:
        print_encoded(encode_overview(overview), output)


async def _follow(home: KubeClient, config: StatusConfig, overview: Overview, output: str) -> None:
    console = open_console()
    while True:
        _print(overview, output, console)
        sys.stdout.write({"table": "\n", "yaml": "---\n"}.get(output, ""))
        overview = await _look_again(home, config, overview)


async def _follow_live(home: KubeClient, config: StatusConfig, overview: Overview) -> None:
    with Live(console=open_console(), auto_refresh=False, vertical_overflow="visible") as live:
        while True:
            live.update(build_overview_table(overview), refresh=True)
            overview = await _look_again(home, config, overview)


async def _look_again(home: KubeClient, config: StatusConfig, before: Overview) -> Overview:
    """Look after a while; while home can't be reached, what was seen last stays, and why."""
    await asyncio.sleep(WATCH_SECONDS)
    try:
        return await _look(home, config)
    except KubeError as error:
        return before.with_trouble(f"home can't be looked at now: {error}")
