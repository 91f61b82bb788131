{{- define "backend.name" -}}
{{- .Values.fullnameOverride | default .Release.Name | replace "." "-" | trunc 50 | trimSuffix "-" -}}
{{- end }}

{{- /* Name, namespace and labels of an object. Takes a list: root, suffix of the name, further labels. */ -}}
{{- define "backend.meta" -}}
{{- $root := first . -}}
{{- $labels := include "backend.labels" $root | fromYaml -}}
{{- range slice . 2 }}{{ $labels = mergeOverwrite $labels (. | default dict) }}{{ end -}}
name: {{ include "backend.name" $root }}{{ index . 1 }}
namespace: {{ $root.Release.Namespace | quote }}
labels: {{- toYaml $labels | nindent 2 }}
{{- end }}

{{- define "backend.selector" -}}
app.kubernetes.io/name: atherops-backend
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "backend.labels" -}}
{{- $chart := printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 -}}
{{- $own := dict "app.kubernetes.io/version" (.Chart.AppVersion | replace "+" "_") "app.kubernetes.io/managed-by" .Release.Service "helm.sh/chart" $chart -}}
{{- mergeOverwrite (include "backend.selector" . | fromYaml) $own (.Values.commonLabels | default dict) | toYaml -}}
{{- end }}

{{- define "backend.secret" -}}
{{- .Values.secrets.existingSecret | default (printf "%s-secrets" (include "backend.name" .)) -}}
{{- end }}

{{- /* Whether OpenShift chooses the users of pods, from the range of the namespace. */ -}}
{{- define "backend.openshift" -}}
{{- if .Capabilities.APIVersions.Has "security.openshift.io/v1" }}true{{ end -}}
{{- end }}

{{- define "backend.scheme" -}}{{ ternary "http" "https" (empty .Values.tls.secretName) }}{{- end }}

{{- /* A digest identifies one image: in the distributed form, it must be that of the lean image. */ -}}
{{- define "backend.image" -}}
{{- $image := .Values.image -}}
{{- $named := contains "@" $image.repository -}}
{{- if and $named (or $image.tag $image.digest) }}{{ fail "image: repository names a digest already; leave tag and digest empty" }}{{ end -}}
{{- with (.Values.global).imageRegistry }}{{ trimSuffix "/" . }}/{{ end -}}
{{- if $named }}{{ $image.repository -}}
{{- else if $image.digest }}{{ $image.repository }}{{ with $image.tag }}:{{ . }}{{ end }}@{{ $image.digest -}}
{{- else }}{{ $image.repository }}:{{ $image.tag | default (.Chart.AppVersion | replace "+" "-") }}{{ ternary "-lean" "" (eq .Values.mode "distributed") }}{{ end -}}
{{- end }}

{{- /* The Deployment that serves users, as kubectl names it. */ -}}
{{- define "backend.deployment" -}}
{{ $claim := dig "api" "persistence" "size" "" .Values.distributed -}}
{{ ternary "statefulset" "deployment" (and (eq .Values.mode "distributed") (ne $claim "")) }}/{{ include "backend.name" . }}{{ if eq .Values.mode "distributed" }}-api{{ end }}
{{- end }}
