{{- /* Variables of the container. settings.json, which `npm run reference` writes from the table of settings, maps variables to values. */ -}}

{{- /* Each setting whose value is not its default, as a map. A value that is a Secret's name or a map is passed by "backend.ownEnv". */ -}}
{{- define "backend.settings" -}}
{{- $absent := ternary "distributed." "backup." (eq .Values.mode "embedded") -}}
{{- range $name, $row := .Files.Get "settings.json" | fromJson }}
{{- if and (hasKey $row "default") (not (hasPrefix $absent $row.value)) }}
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

{{- /* What the chart sets in another way; null: not at all. Takes a dict: root, role. */ -}}
{{- define "backend.ownEnv" -}}
{{- $values := .root.Values -}}
{{- $tls := not (empty $values.tls.secretName) -}}
{{- $embedded := eq $values.mode "embedded" -}}
API_LISTEN: ":8080"
ALERTING_LISTEN: ":8082"
HEALTH_LISTEN: ":9090"
DATA_DIR: /data
OTLP_GRPC_LISTEN: {{ ternary ":4317" "null" (not (empty ($values.ingestTokens).otlpGrpc)) | quote | replace "\"null\"" "null" }}
BACKUP_FOLDER: {{ ternary "/backup" "null" (and $embedded (not (empty ($values.backup).every))) }}
SECRETS_FOLDER: /run/secrets/atherops
{{- if $embedded }}
# Without another replica, a drain would only delay the next one, which cannot open the volume before.
DRAIN_DELAY: null
{{- end }}
{{- if not (($values.notification).smtp).existingSecret }}
SMTP_FROM: null
{{- end }}
{{- if $tls }}
TLS_CERT_FILE: /run/secrets/tls/tls.crt
TLS_KEY_FILE: /run/secrets/tls/tls.key
{{- end }}
{{- if $values.secrets.existingSecret }}
# By file, so that a key that the Secret lacks stops the start; SECRETS_FOLDER alone would take it for unset.
MASTER_KEY_FILE: /run/secrets/atherops/MASTER_KEY
JWT_SECRET_FILE: /run/secrets/atherops/JWT_SECRET
{{- end }}
{{- if not $embedded }}
DATABASE_URL_FILE: /run/secrets/atherops/DATABASE_URL
CLICKHOUSE_URL_FILE: /run/secrets/atherops/CLICKHOUSE_URL
{{- if eq .role "api" }}
ALERTING_URL: {{ ternary "https" "http" $tls }}://{{ include "backend.name" .root }}-alerting:8082
{{- if $tls }}
# The alerting service uses the same certificate, which a private authority may have signed.
NODE_EXTRA_CA_CERTS: /run/secrets/tls/ca.crt
{{- end }}
{{- else if $values.distributed.vmalert.offerRules }}
RULES_LISTEN: ":8083"
{{- end }}
{{- end }}
{{- end }}

{{- /* The list of variables: settings, then what the chart sets in another way, then extraEnv. Takes a dict: root, role. */ -}}
{{- define "backend.env" -}}
{{- $env := include "backend.settings" .root | fromYaml -}}
{{- range list (include "backend.ownEnv" . | fromYaml) (.root.Values.extraEnv | default dict) }}{{ range $name, $value := . }}{{ $_ := set $env $name $value }}{{ end }}{{ end -}}
{{- range $name, $value := $env }}{{ if not (kindIs "invalid" $value) }}
- { name: {{ $name }}, {{ if kindIs "map" $value }}valueFrom: {{ toJson $value }}{{ else }}value: {{ $value | quote }}{{ end }} }
{{- end }}{{ end }}
{{- end }}
