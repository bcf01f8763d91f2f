"""Write the chart's admission objects, which are made from the dialect tables, as one template.

usage: tools/chart_admission.py [FILE]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

from terrazzo.control.guards import Accounts
from terrazzo.control.registration import Endpoint, objects

FILE = Path(__file__).parents[1] / "deploy" / "chart" / "templates" / "admission.yaml"
NAMESPACE = "{{ .Release.Namespace }}"
_LABELS = "LABELS"
_HEAD = """\
{{- /*
Written by tools/chart_admission.py from the tables of resource names; change those, not this file.
caBundle is not here: the controller writes and rotates it.
*/ -}}
{{- define "terrazzo.webhookClient" -}}
{{- if .root.Values.webhook.url -}}
url: {{ trimSuffix "/" .root.Values.webhook.url }}{{ .path }}
{{- else -}}
service: {name: terrazzo-webhook, namespace: {{ .root.Release.Namespace }}, path: {{ .path }}, port: 443}
{{- end -}}
{{- end }}
"""


class _Dumper(yaml.SafeDumper):
    """Writes no anchors, and lists below their key as people do."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        """Return that nothing is shared."""
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        """Indent lists, too."""
        super().increase_indent(flow, indentless=False)


def template() -> str:
    """Return the text of the template."""
    made = objects(Endpoint(namespace=NAMESPACE), Accounts.of(NAMESPACE))
    for each in made:
        each["metadata"]["labels"] = _LABELS
        for hook in each.get("webhooks", ()):
            hook["clientConfig"] = f"CLIENT{hook['clientConfig']['service']['path']}"
    lines = yaml.dump_all(
        made, Dumper=_Dumper, sort_keys=False, width=10**6, default_flow_style=False, explicit_start=True
    ).splitlines()
    return _HEAD + "".join(f"{_filled(line)}\n" for line in lines)


def _filled(line: str) -> str:
    key, _, value = line.partition(": ")
    if value == _LABELS:
        return f'{key}: {{{{- include "terrazzo.labels" . | nindent 4 }}}}'
    if value.startswith("CLIENT/"):
        path = value.removeprefix("CLIENT")
        return f'{key}: {{{{- include "terrazzo.webhookClient" (dict "root" . "path" "{path}") | nindent 6 }}}}'
    return line


def main(arguments: list[str]) -> None:
    """Write the file."""
    file = Path(arguments[0]) if arguments else FILE
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(template(), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
