{{- define "terrazzo.labels" -}}
app.kubernetes.io/name: terrazzo
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: terrazzo
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* What never changes between versions: selectors are immutable. */ -}}
{{- define "terrazzo.selector" -}}
app.kubernetes.io/name: terrazzo
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "terrazzo.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "terrazzo.schedulerImage" -}}
{{- /* Vendors add words to their versions, and people leave the patch out. */ -}}
{{- $minor := regexFind "^[0-9]+" .Capabilities.KubeVersion.Minor -}}
{{- $version := regexFind "^v[0-9]+\\.[0-9]+\\.[0-9]+" .Capabilities.KubeVersion.Version | default (printf "v%s.%s.0" .Capabilities.KubeVersion.Major $minor) -}}
{{ .Values.kubeScheduler.image }}:{{ .Values.kubeScheduler.tag | default $version }}
{{- end }}

{{- define "terrazzo.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "terrazzo.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "terrazzo.placement" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- if .Values.priorityClass.create }}
priorityClassName: terrazzo
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
