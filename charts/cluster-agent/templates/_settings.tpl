{{- /* Variables of the container. settings.json, which `npm run reference` writes from the table of settings, maps variables to values. */ -}}

{{- /* Each setting whose value is not its default, as a map. A value that is a Secret's name or a map is passed by "agent.ownEnv". */ -}}
{{- define "agent.settings" -}}
{{- range $name, $row := .Files.Get "settings.json" | fromJson }}
{{- if hasKey $row "default" }}
{{- $value := $.Values }}
{{- range splitList "." $row.value }}{{ if kindIs "map" $value }}{{ $value = index $value . }}{{ end }}{{ end }}
{{- if kindIs "slice" $value }}{{ $value = join $row.separator $value }}{{ end }}
{{- if kindIs "float64" $value }}{{ if eq $value (floor $value) }}{{ $value = int64 $value }}{{ end }}{{ end }}
{{- if not (or (kindIs "map" $value) (has (toString $value) (list "" "<nil>" $row.default))) }}
{{ $name }}: {{ toString $value | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* What the chart sets in another way; null: not at all. */ -}}
{{- define "agent.ownEnv" -}}
NODE_NAME: { fieldRef: { fieldPath: spec.nodeName } }
NODE_IP: { fieldRef: { fieldPath: status.hostIP } }
POD_NAMESPACE: { fieldRef: { fieldPath: metadata.namespace } }
POD_UID: { fieldRef: { fieldPath: metadata.uid } }
STATE_DIR: /var/lib/atherops-agent
SIGNALS: {{ include "agent.signals" . | quote }}
{{- $names := dict }}
{{- range $name, $row := .Files.Get "settings.json" | fromJson }}{{ $_ := set $names $name $row.value }}{{ end }}
VALUE_NAMES: {{ toJson $names | squote }}
{{- if include "agent.kubeletCa" . }}
KUBELET_TLS: /run/secrets/kubelet-ca/ca.crt
{{- end }}
{{- if (.Values.identity).workload }}
IDENTITY_TOKEN_FILE: /run/secrets/identity/token
{{- end }}
{{- if include "agent.tokenSecret" . }}
INSTALL_TOKEN_FILE: /run/secrets/install-token/token
{{- end }}
{{- if or .Values.backendCa.configMap .Values.backendCa.secret }}
BACKEND_CA_FILE: /run/secrets/backend-ca/ca.crt
{{- end }}
{{- if .Values.proxy.existingSecret }}
HTTPS_PROXY: { secretKeyRef: { name: {{ .Values.proxy.existingSecret | quote }}, key: HTTPS_PROXY } }
{{- else if .Values.proxy.httpsProxy }}
HTTPS_PROXY: {{ .Values.proxy.httpsProxy | quote }}
{{- end }}
{{- if .Values.collector.extraConfig }}
COLLECTOR_CONFIG_FILE: /etc/atherops/collector/extra.yaml
{{- end }}
{{- range $name := concat (ternary list (list "SCRAPE_PODS" "PROMETHEUS_OPERATOR" "WORKLOAD_NAMES" "CLUSTER_STATE") .Values.signals.metrics) (ternary list (list "KUBERNETES_EVENTS" "LOG_POLICIES") .Values.signals.logs) }}
{{ $name }}: null
{{- end }}
{{- end }}

{{- /* The list of variables: settings, then what the chart sets in another way, then extraEnv. */ -}}
{{- define "agent.env" -}}
{{- $env := include "agent.settings" . | fromYaml -}}
{{- range list (include "agent.ownEnv" . | fromYaml) (.Values.extraEnv | default dict) }}{{ range $name, $value := . }}{{ $_ := set $env $name $value }}{{ end }}{{ end -}}
{{- range $name, $value := $env }}{{ if not (kindIs "invalid" $value) }}
- { name: {{ $name }}, {{ if kindIs "map" $value }}valueFrom: {{ toJson $value }}{{ else }}value: {{ $value | quote }}{{ end }} }
{{- end }}{{ end }}
{{- end }}
