"""`vkubelet check`: tell what would fail, and what to do about it."""

from collections.abc import Iterable

from provider.checkup.checks import CheckOptions, run_checks
from provider.checkup.finding import CheckResult, encode_results, has_failed
from provider.command_config import CheckConfig
from provider.commands.check_table import print_result, print_summary
from provider.commands.launch import run_to_end
from provider.commands.output import open_console, print_encoded
from provider.node_plan import build_mapping

EXIT_FAILED = 1


def main(config: CheckConfig, options: CheckOptions, *, output: str) -> int:
    """
    Check, and print what was found.

    Args:
        config: What `vkubelet run` would get.
        options: What is checked, and how.
        output: "table", "json" or "yaml".

    Returns:
        1 if something doesn't work, else 0; warnings don't count.

    Raises:
        ConfigError: If the node mapping can't be made.
    """
    results = run_to_end(lambda: check(config, options, output=output))
    return EXIT_FAILED if has_failed(results) else 0


async def check(
    config: CheckConfig, options: CheckOptions, *, output: str
) -> Iterable[CheckResult]:
    """Check, in a running loop; see `main`. A table grows as results come."""
    mapping = build_mapping(config.nodes, config.remote.cluster)
    console = open_console()
    results: list[CheckResult] = []
    async for result in run_checks(config, mapping, options):
        results.append(result)
        if output == "table":
            print_result(result, console)
    if output == "table":
        print_summary(results, console)
    else:
        print_encoded(encode_results(results), output)
    return results
