{{- define "backend.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end }}

{{- define "backend.selector" -}}
app.kubernetes.io/name: atherops-backend
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "backend.labels" -}}
{{ include "backend.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "backend.secret" -}}
{{- .Values.secrets.existingSecret | default (printf "%s-secrets" (include "backend.name" .)) -}}
{{- end }}

{{- define "backend.image" -}}
{{- $tag := .Values.image.tag | default .Chart.AppVersion -}}
{{- printf "%s:%s%s" .Values.image.repository $tag (ternary "-lean" "" (eq .Values.mode "distributed")) -}}
{{- end }}

{{/* The environment that both roles share. */}}
{{- define "backend.env" -}}
- { name: API_LISTEN, value: "0.0.0.0:8080" }
- { name: ALERTING_LISTEN, value: "0.0.0.0:8082" }
- { name: HEALTH_LISTEN, value: "0.0.0.0:9090" }
- { name: MASTER_KEY_FILE, value: /run/secrets/atherops/MASTER_KEY }
- { name: JWT_SECRET_FILE, value: /run/secrets/atherops/JWT_SECRET }
- { name: ADMIN_PASSWORD_FILE, value: /run/secrets/atherops/ADMIN_PASSWORD }
- { name: ADMIN_EMAIL, value: {{ .Values.admin.email | quote }} }
- { name: LOGS_RETENTION_DAYS, value: {{ .Values.retention.logsDays | quote }} }
- { name: TRACES_RETENTION_DAYS, value: {{ .Values.retention.tracesDays | quote }} }
- { name: METRICS_RETENTION, value: {{ .Values.retention.metrics | quote }} }
- { name: QUOTA_BYTES_PER_SECOND, value: {{ .Values.quota.bytesPerSecond | int64 | quote }} }
- { name: QUOTA_RECORDS_PER_SECOND, value: {{ .Values.quota.recordsPerSecond | int64 | quote }} }
- { name: EVALUATION_INTERVAL, value: {{ .Values.evaluation.interval | quote }} }
- { name: JWT_TTL, value: {{ .Values.jwtTtl | quote }} }
- { name: LOG_LEVEL, value: {{ .Values.logLevel | quote }} }
{{- with .Values.alertmanagerUrl }}
- { name: ALERTMANAGER_URL, value: {{ . | quote }} }
{{- end }}
{{- with .Values.trustedProxies }}
- { name: TRUSTED_PROXIES, value: {{ join "," . | quote }} }
{{- end }}
{{- if .Values.tls.secretName }}
- { name: TLS_CERT_FILE, value: /run/secrets/tls/tls.crt }
- { name: TLS_KEY_FILE, value: /run/secrets/tls/tls.key }
{{- end }}
{{- if eq .Values.mode "distributed" }}
{{- with .Values.distributed }}
- { name: DATABASE_URL_FILE, value: /run/secrets/connections/DATABASE_URL }
- { name: CLICKHOUSE_URL_FILE, value: /run/secrets/connections/CLICKHOUSE_URL }
- { name: METRICS_WRITE_URL, value: {{ required "distributed.metrics.writeUrl is required: the URL of vminsert or VictoriaMetrics" .metrics.writeUrl | quote }} }
- { name: METRICS_QUERY_URL, value: {{ required "distributed.metrics.queryUrl is required: the URL of vmselect or VictoriaMetrics" .metrics.queryUrl | quote }} }
- { name: EVALUATOR_QUERY_URL, value: {{ required "distributed.vmalert.queryUrl is required: the URL of vmalert" .vmalert.queryUrl | quote }} }
{{- with .clickhouseCluster }}
- { name: CLICKHOUSE_CLUSTER, value: {{ . | quote }} }
{{- end }}
{{- end }}
- { name: DATA_DIR, value: /tmp/atherops }
{{- else }}
- { name: DATA_DIR, value: /data }
{{- end }}
{{- range $name, $value := .Values.extraEnv }}
- { name: {{ $name }}, value: {{ $value | quote }} }
{{- end }}
{{- end }}

{{- define "backend.mounts" -}}
- { name: tmp, mountPath: /tmp }
- { name: secrets, mountPath: /run/secrets/atherops, readOnly: true }
{{- if .Values.tls.secretName }}
- { name: tls, mountPath: /run/secrets/tls, readOnly: true }
{{- end }}
{{- if eq .Values.mode "distributed" }}
- { name: connections, mountPath: /run/secrets/connections, readOnly: true }
{{- else }}
- { name: data, mountPath: /data }
{{- end }}
{{- end }}

{{- define "backend.volumes" -}}
- { name: tmp, emptyDir: {} }
- name: secrets
  secret: { secretName: {{ include "backend.secret" . }}, defaultMode: 0440 }
{{- if .Values.tls.secretName }}
- name: tls
  secret: { secretName: {{ .Values.tls.secretName }}, defaultMode: 0440 }
{{- end }}
{{- if eq .Values.mode "distributed" }}
- name: connections
  secret:
    secretName: {{ required "distributed.connectionSecret is required: a Secret with DATABASE_URL and CLICKHOUSE_URL" .Values.distributed.connectionSecret }}
    defaultMode: 0440
{{- else }}
- name: data
  persistentVolumeClaim: { claimName: {{ .Values.persistence.existingClaim | default (printf "%s-data" (include "backend.name" .)) }} }
{{- end }}
{{- end }}

{{/* One container and its pod. Takes a dict: root, role (empty: both), resources. */}}
{{- define "backend.pod" -}}
{{- $root := .root -}}
metadata:
  labels:
    {{- include "backend.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .role | default "all" }}
    {{- with $root.Values.podLabels }}{{ toYaml . | nindent 4 }}{{ end }}
  {{- with $root.Values.podAnnotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "backend.name" $root }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ $root.Values.terminationGracePeriodSeconds }}
  {{- with $root.Values.imagePullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $root.Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 1000
    runAsGroup: 1000
    fsGroup: 1000
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: { type: RuntimeDefault }
  containers:
    - name: backend
      image: {{ include "backend.image" $root }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      args: [serve{{ with .role }}, --roles, {{ . }}{{ end }}]
      env:
        {{- include "backend.env" $root | nindent 8 }}
        {{- if and (eq $root.Values.mode "distributed") (eq .role "api") }}
        - { name: ALERTING_URL, value: "http://{{ include "backend.name" $root }}-alerting:8082" }
        {{- end }}
        {{- if and (eq $root.Values.mode "distributed") (eq .role "alerting") $root.Values.distributed.vmalert.offerRules }}
        - { name: RULES_LISTEN, value: "0.0.0.0:8083" }
        - { name: RULES_PASSWORD_FILE, value: /run/secrets/connections/RULES_PASSWORD }
        {{- end }}
      ports:
        {{- if ne .role "alerting" }}
        - { name: api, containerPort: 8080 }
        {{- end }}
        {{- if ne .role "api" }}
        - { name: alerting, containerPort: 8082 }
        {{- end }}
        {{- if and (eq .role "alerting") $root.Values.distributed.vmalert.offerRules }}
        - { name: rules, containerPort: 8083 }
        {{- end }}
        - { name: health, containerPort: 9090 }
      startupProbe:
        httpGet: { path: /healthz, port: health }
        periodSeconds: 2
        failureThreshold: 60
      livenessProbe:
        httpGet: { path: /healthz, port: health }
        periodSeconds: 10
        timeoutSeconds: 5
      readinessProbe:
        httpGet: { path: /readyz, port: health }
        periodSeconds: 3
        timeoutSeconds: 5
      resources: {{- toYaml .resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: { drop: [ALL] }
      volumeMounts: {{- include "backend.mounts" $root | nindent 8 }}
  volumes: {{- include "backend.volumes" $root | nindent 4 }}
  {{- with $root.Values.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $root.Values.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $root.Values.affinity }}
  affinity: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
