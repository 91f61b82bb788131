{{- define "agent.name" -}}
{{- if contains "cluster-agent" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-cluster-agent" (.Release.Name | trunc 36 | trimSuffix "-") }}{{ end -}}
{{- end }}

{{- define "agent.selector" -}}
app.kubernetes.io/name: cluster-agent
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "agent.labels" -}}
{{ include "agent.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "agent.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (include "agent.name" .) -}}
{{- end }}

{{- define "agent.signals" -}}
{{- $signals := list -}}
{{- range $name := list "metrics" "logs" "traces" }}{{ if index $.Values.signals $name }}{{ $signals = append $signals $name }}{{ end }}{{ end -}}
{{- if not $signals }}{{ fail "signals: at least one of metrics, logs, traces must be on" }}{{ end -}}
{{- join "," $signals -}}
{{- end }}

{{- define "agent.tokenSecret" -}}
{{- if .Values.installToken.existingSecret }}{{ .Values.installToken.existingSecret }}{{ else if .Values.installToken.value }}{{ include "agent.name" . }}-install-token{{ end -}}
{{- end }}
