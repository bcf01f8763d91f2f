{{- /* An entry of "extenders" in a KubeSchedulerConfiguration. */ -}}
{{- define "terrazzo.extender" -}}
- urlPrefix: {{ .url }}
  filterVerb: filter
  prioritizeVerb: prioritize
  bindVerb: bind
  preemptVerb: preempt
  weight: 1
  nodeCacheCapable: true
  httpTimeout: 30s
  managedResources:
    {{- range .root.Files.Lines "files/names.txt" }}
    {{- if and . (not (hasPrefix "#" .)) }}
    - {name: {{ . }}, ignoredByScheduler: true}
    {{- end }}
    {{- end }}
{{- end }}
