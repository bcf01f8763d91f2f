"""``terrazzo control``: a process of the control plane."""

from __future__ import annotations

from pathlib import Path

import click

ROLES = ("extender", "webhook", "reconciler")


@click.command(
    "control",
    epilog="""\b
Examples:
  terrazzo control --kubeconfig ~/.kube/config
  terrazzo control --config /etc/terrazzo/control.yaml --role extender
  terrazzo control --role webhook --role reconciler""",
)
@click.option("--config", "config", type=click.Path(path_type=Path), help="YAML file with settings.")
@click.option(
    "--role", "roles", multiple=True, type=click.Choice(ROLES), help="What this process does; all when not given."
)
@click.option("--kubeconfig", default="", help="How to reach the API server; in a pod, its account.")
@click.option("--context", default="", help="Context of the kubeconfig.")
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True,
    help="Least important lines that are written.",
)  # fmt: skip
@click.option(
    "--log-format", type=click.Choice(["json", "text"]), default="json", show_default=True, help="Form of the lines."
)
def command(
    config: Path | None, roles: tuple[str, ...], kubeconfig: str, context: str, log_level: str, log_format: str
) -> int:
    """Run the scheduler extender, the admission webhook, the reconciler, or all of them."""
    try:
        import uvloop  # noqa: PLC0415 - heavy, and help must not wait for it

        from terrazzo.control import observed, service, settings  # noqa: PLC0415 - see above
        from terrazzo.kube.access import find  # noqa: PLC0415 - see above
    except ModuleNotFoundError as error:
        raise click.UsageError(f"{error.name} is not installed; install terrazzo[control]") from None

    read = settings.read(config)
    access = find(kubeconfig, context)
    log = observed.start_log(log_level, form=log_format)

    async def run() -> None:
        wanted = [service.Role(role) for role in roles or ROLES]
        await service.Service(read, wanted, access, log).run()

    uvloop.run(run())
    return 0
