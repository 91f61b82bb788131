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

{{- /* A digest identifies one image: in the distributed form, it must be that of the lean image. */ -}}
{{- define "backend.image" -}}
{{- $image := .Values.image -}}
{{- $named := contains "@" $image.repository -}}
{{- if and $named (or $image.tag $image.digest) }}{{ fail "image: repository names a digest already; leave tag and digest empty" }}{{ end -}}
{{- with (.Values.global).imageRegistry }}{{ trimSuffix "/" . }}/{{ end -}}
{{- if $named }}{{ $image.repository -}}
{{- else if $image.digest }}{{ $image.repository }}{{ with $image.tag }}:{{ . }}{{ end }}@{{ $image.digest -}}
{{- else }}{{ $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}{{ ternary "-lean" "" (eq .Values.mode "distributed") }}{{ end -}}
{{- end }}

{{- /* The Deployment that serves users, as kubectl names it. */ -}}
{{- define "backend.deployment" -}}
deployment/{{ include "backend.name" . }}{{ if eq .Values.mode "distributed" }}-api{{ end }}
{{- end }}

{{- /* Maps variables to values, so that error messages name the value. */ -}}
{{- define "backend.valueNames" -}}
ADMIN_EMAIL: admin.email
ADMIN_PASSWORD: secrets.existingSecret
ALERTMANAGER_URL: alertmanagerUrl
ALERTS_PASSWORD: distributed.connectionSecret
BACKUP_EVERY: backup.every
BACKUP_FOLDER: backup.existingClaim
BACKUP_KEEP: backup.keep
CLICKHOUSE_CLUSTER: distributed.clickhouseCluster
CLICKHOUSE_URL: distributed.connectionSecret
DATABASE_URL: distributed.connectionSecret
DATA_DIR: persistence
EVALUATION_INTERVAL: evaluation.interval
EVALUATOR_QUERY_URL: distributed.vmalert.queryUrl
FIRST_INSTALL_TOKEN: secrets.existingSecret
INGEST_TOKENS: ingestTokens.enabled
INGEST_TOKENS_OVER_HTTP: ingestTokens.overHttp
JWT_SECRET: secrets.existingSecret
JWT_TTL: jwtTtl
LOGS_RETENTION_DAYS: retention.logsDays
LOG_LEVEL: logLevel
MASTER_KEY: secrets.existingSecret
METRICS_QUERY_URL: distributed.metrics.queryUrl
METRICS_RETENTION: retention.metrics
METRICS_WRITE_URL: distributed.metrics.writeUrl
NOTIFY_ALLOWED_NETWORKS: notification.allowedNetworks
OTLP_GRPC_LISTEN: ingestTokens.otlpGrpc
PUBLIC_URL: publicUrl
QUOTA_BYTES_PER_SECOND: quota.bytesPerSecond
QUOTA_RECORDS_PER_SECOND: quota.recordsPerSecond
QUOTA_ACTIVE_SERIES: quota.activeSeries
RULES_PASSWORD: distributed.connectionSecret
SMTP_ALLOWED_DOMAINS: notification.smtp.allowedDomains
SMTP_FROM: notification.smtp.from
SMTP_URL: notification.smtp.existingSecret
TLS_CERT_FILE: tls.secretName
TLS_KEY_FILE: tls.secretName
TRACES_RETENTION_DAYS: retention.tracesDays
TRUSTED_PROXIES: trustedProxies
{{- end }}

{{- /* Fails on settings with which the backend would not start, before a pod is created; and on an Ingress that would make all clients look
       like one. */ -}}
{{- define "backend.check" -}}
{{- if and .Values.ingress.enabled (not .Values.trustedProxies) -}}
{{- fail "trustedProxies is required with ingress.enabled: the addresses or CIDRs from which the ingress controller's pods connect (kubectl get pods -A -o wide shows them). Without it all clients have the controller's address, and one client that guesses passwords blocks everyone's login. A client at one of these addresses may claim any other address: list only those that the controller needs" -}}
{{- end -}}
{{- range .Values.trustedProxies }}{{ if not (regexMatch "^([0-9]{1,3}(\\.[0-9]{1,3}){3}(/([0-9]|[12][0-9]|3[0-2]))?|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*(/([0-9]{1,2}|1[01][0-9]|12[0-8]))?|loopback|linklocal|uniquelocal)$" .) -}}
{{- fail (printf "trustedProxies: %q is not an address or CIDR, such as 10.0.0.0/8" .) -}}
{{- end }}{{ end -}}
{{- range (.Values.notification).allowedNetworks }}{{ if not (regexMatch "^([0-9]{1,3}(\\.[0-9]{1,3}){3}(/([0-9]|[12][0-9]|3[0-2]))?|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*(/([0-9]{1,2}|1[01][0-9]|12[0-8]))?)$" .) -}}
{{- fail (printf "notification.allowedNetworks: %q is not an address or CIDR, such as 10.0.0.0/8" .) -}}
{{- end }}{{ end -}}
{{- with (.Values.notification).smtp }}{{ if and .existingSecret (not .from) }}{{ fail "notification.smtp.from is required with notification.smtp.existingSecret: the sender's address" }}{{ end }}{{ end -}}
{{- with .Values.ingestTokens }}
{{- if and (or .overHttp .otlpGrpc) (not .enabled) }}{{ fail "ingestTokens.enabled is required with ingestTokens.overHttp and ingestTokens.otlpGrpc" }}{{ end -}}
{{- if and .otlpGrpc (not (or .overHttp $.Values.tls.secretName)) }}{{ fail "ingestTokens.otlpGrpc: the listener refuses tokens without TLS: set tls.secretName, or ingestTokens.overHttp=true" }}{{ end -}}
{{- end -}}
{{- include "backend.checkUrl" (dict "name" "publicUrl" "url" .Values.publicUrl) -}}
{{- include "backend.checkDuration" (dict "name" "evaluation.interval" "text" .Values.evaluation.interval) -}}
{{- include "backend.checkDuration" (dict "name" "jwtTtl" "text" .Values.jwtTtl) -}}
{{- with (.Values.backup).every }}
{{- if not (regexMatch "^([0-9]+(y|w|d|h|m))+$" .) | or (regexMatch "^0+[a-z]$" .) }}{{ fail (printf "backup.every: %q is not a duration such as 6h or 1d" .) }}{{ end -}}
{{- if not ($.Values.backup).existingClaim }}{{ fail "backup.existingClaim is required with backup.every: a claim for the backups" }}{{ end -}}
{{- end -}}
{{- if and (eq .Values.mode "distributed") (or (.Values.backup).every (.Values.backup).existingClaim) }}{{ fail "backup: in the distributed form every engine is external; back up the engines themselves (docs/backup.md)" }}{{ end -}}
{{- if not (regexMatch "^[0-9]+(\\.[0-9]+)?[hdwMy]?$" .Values.retention.metrics) | or (regexMatch "^0+(\\.0+)?[hdwMy]?$" .Values.retention.metrics) }}{{ fail (printf "retention.metrics: %q is not a retention such as 30d, 8w or 1y" .Values.retention.metrics) }}{{ end -}}
{{- if not (regexMatch "^[^@[:space:]]+@[^@[:space:]]+$" .Values.admin.email) }}{{ fail (printf "admin.email: %q is not an e-mail address, such as admin@example.com" .Values.admin.email) }}{{ end -}}
{{- include "backend.checkUrl" (dict "name" "alertmanagerUrl" "url" .Values.alertmanagerUrl) -}}
{{- include "backend.checkUrl" (dict "name" "distributed.metrics.writeUrl" "url" .Values.distributed.metrics.writeUrl) -}}
{{- include "backend.checkUrl" (dict "name" "distributed.metrics.queryUrl" "url" .Values.distributed.metrics.queryUrl) -}}
{{- include "backend.checkUrl" (dict "name" "distributed.vmalert.queryUrl" "url" .Values.distributed.vmalert.queryUrl) -}}
{{- $values := include "backend.valueNames" . | fromYaml -}}
{{- range $name, $_ := .Values.extraEnv -}}
{{- $variable := trimSuffix "_FILE" $name -}}
{{- with or (get $values $name) (get $values $variable) }}{{ fail (printf "extraEnv.%s: set the value %s instead" $name .) }}{{ end -}}
{{- if has $variable (list "API_LISTEN" "ALERTING_LISTEN" "HEALTH_LISTEN" "ALERTING_URL" "RULES_LISTEN") }}{{ fail (printf "extraEnv.%s: the chart sets this variable itself" $name) }}{{ end -}}
{{- end -}}
{{- end }}

{{- define "backend.checkUrl" -}}
{{- with .url }}{{ if not (regexMatch "^https?://[^/]" .) }}{{ fail (printf "%s: must be a URL that begins with http:// or https://" $.name) }}{{ end }}{{ end -}}
{{- end }}

{{- /* The schema has validated the format; this checks that it is at least a second. */ -}}
{{- define "backend.checkDuration" -}}
{{- if regexMatch "^(0*|[0-9]{0,3}ms|0+[a-z]+)$" .text }}{{ fail (printf "%s: must be a duration of at least 1s, such as 15s or 5m" .name) }}{{ end -}}
{{- end }}

{{/* The environment variables of both roles. */}}
{{- define "backend.env" -}}
- { name: API_LISTEN, value: "0.0.0.0:8080" }
- { name: ALERTING_LISTEN, value: "0.0.0.0:8082" }
- { name: HEALTH_LISTEN, value: "0.0.0.0:9090" }
- { name: MASTER_KEY_FILE, value: /run/secrets/atherops/MASTER_KEY }
- { name: JWT_SECRET_FILE, value: /run/secrets/atherops/JWT_SECRET }
- { name: ADMIN_PASSWORD_FILE, value: /run/secrets/atherops/ADMIN_PASSWORD }
- { name: FIRST_INSTALL_TOKEN, valueFrom: { secretKeyRef: { name: {{ include "backend.secret" . }}, key: FIRST_INSTALL_TOKEN, optional: true } } }
- { name: ADMIN_EMAIL, value: {{ .Values.admin.email | quote }} }
- { name: LOGS_RETENTION_DAYS, value: {{ .Values.retention.logsDays | quote }} }
- { name: TRACES_RETENTION_DAYS, value: {{ .Values.retention.tracesDays | quote }} }
- { name: METRICS_RETENTION, value: {{ .Values.retention.metrics | quote }} }
- { name: QUOTA_BYTES_PER_SECOND, value: {{ .Values.quota.bytesPerSecond | int64 | quote }} }
- { name: QUOTA_RECORDS_PER_SECOND, value: {{ .Values.quota.recordsPerSecond | int64 | quote }} }
- { name: QUOTA_ACTIVE_SERIES, value: {{ .Values.quota.activeSeries | int64 | quote }} }
- { name: EVALUATION_INTERVAL, value: {{ .Values.evaluation.interval | quote }} }
- { name: JWT_TTL, value: {{ .Values.jwtTtl | quote }} }
- { name: LOG_LEVEL, value: {{ .Values.logLevel | quote }} }
{{- with .Values.alertmanagerUrl }}
- { name: ALERTMANAGER_URL, value: {{ . | quote }} }
{{- end }}
{{- with .Values.publicUrl }}
- { name: PUBLIC_URL, value: {{ . | quote }} }
{{- end }}
{{- with .Values.notification }}
{{- with .allowedNetworks }}
- { name: NOTIFY_ALLOWED_NETWORKS, value: {{ join "," . | quote }} }
{{- end }}
{{- with .smtp }}
{{- if .existingSecret }}
- { name: SMTP_URL_FILE, value: /run/secrets/smtp/SMTP_URL }
- { name: SMTP_FROM, value: {{ .from | quote }} }
{{- with .allowedDomains }}
- { name: SMTP_ALLOWED_DOMAINS, value: {{ join "," . | quote }} }
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- with .Values.ingestTokens }}
{{- if .enabled }}
- { name: INGEST_TOKENS, value: "true" }
{{- end }}
{{- if .overHttp }}
- { name: INGEST_TOKENS_OVER_HTTP, value: "true" }
{{- end }}
{{- if .otlpGrpc }}
- { name: OTLP_GRPC_LISTEN, value: "0.0.0.0:4317" }
{{- end }}
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
{{- with (.Values.backup).every }}
- { name: BACKUP_EVERY, value: {{ . | quote }} }
- { name: BACKUP_FOLDER, value: /backup }
- { name: BACKUP_KEEP, value: {{ $.Values.backup.keep | int64 | quote }} }
{{- end }}
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
{{- if ((.Values.notification).smtp).existingSecret }}
- { name: smtp, mountPath: /run/secrets/smtp, readOnly: true }
{{- end }}
{{- if eq .Values.mode "distributed" }}
- { name: connections, mountPath: /run/secrets/connections, readOnly: true }
{{- else }}
- { name: data, mountPath: /data }
{{- if (.Values.backup).existingClaim }}
- { name: backup, mountPath: /backup }
{{- end }}
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
{{- with ((.Values.notification).smtp).existingSecret }}
- name: smtp
  secret: { secretName: {{ . }}, defaultMode: 0440 }
{{- end }}
{{- if eq .Values.mode "distributed" }}
- name: connections
  secret:
    secretName: {{ required "distributed.connectionSecret is required: a Secret with DATABASE_URL and CLICKHOUSE_URL" .Values.distributed.connectionSecret }}
    defaultMode: 0440
{{- else }}
- name: data
  persistentVolumeClaim: { claimName: {{ .Values.persistence.existingClaim | default (printf "%s-data" (include "backend.name" .)) }} }
{{- with (.Values.backup).existingClaim }}
- name: backup
  persistentVolumeClaim: { claimName: {{ . }} }
{{- end }}
{{- end }}
{{- end }}

{{/* The pod with its single container. Takes a dict: root, role (empty: both), resources. */}}
{{- define "backend.pod" -}}
{{- $root := .root -}}
metadata:
  labels:
    {{- include "backend.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .role | default "all" }}
    {{- with $root.Values.podLabels }}{{ toYaml . | nindent 4 }}{{ end }}
  {{- $hasTwo := and (eq $root.Values.mode "embedded") $root.Values.persistence.chown }}
  {{- if or $root.Values.podAnnotations $hasTwo }}
  annotations:
    {{- if $hasTwo }}
    kubectl.kubernetes.io/default-container: backend
    {{- end }}
    {{- with $root.Values.podAnnotations }}{{ toYaml . | nindent 4 }}{{ end }}
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
  {{- if $hasTwo }}
  # fsGroup has no effect on a volume that the node or an NFS server owns, so this container changes its owner. It is the only one that runs
  # as root.
  initContainers:
    - name: chown
      image: {{ include "backend.image" $root }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      command: [sh, -c, 'if [ "$(stat -c %u /data)" != 1000 ]; then chown -R 1000:1000 /data; fi']
      securityContext:
        runAsNonRoot: false
        runAsUser: 0
        runAsGroup: 0
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: { drop: [ALL], add: [CHOWN, DAC_READ_SEARCH] }
      resources: { requests: { cpu: 10m, memory: 16Mi }, limits: { memory: 64Mi } }
      volumeMounts:
        - { name: data, mountPath: /data }
  {{- end }}
  containers:
    - name: backend
      image: {{ include "backend.image" $root }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      args: [serve{{ with .role }}, --roles, {{ . }}{{ end }}]
      env:
        {{- include "backend.env" $root | nindent 8 }}
        {{- if and (eq $root.Values.mode "distributed") (eq .role "api") }}
        - { name: ALERTING_URL, value: "{{ ternary "https" "http" (ne $root.Values.tls.secretName "") }}://{{ include "backend.name" $root }}-alerting:8082" }
        {{- if $root.Values.tls.secretName }}
        # The alerting service uses the same certificate, which a private authority may have signed.
        - { name: NODE_EXTRA_CA_CERTS, value: /run/secrets/tls/ca.crt }
        {{- end }}
        {{- end }}
        {{- if and (eq $root.Values.mode "distributed") (eq .role "alerting") $root.Values.distributed.vmalert.offerRules }}
        - { name: RULES_LISTEN, value: "0.0.0.0:8083" }
        - { name: RULES_PASSWORD_FILE, value: /run/secrets/connections/RULES_PASSWORD }
        - { name: ALERTS_PASSWORD_FILE, value: /run/secrets/connections/ALERTS_PASSWORD }
        {{- end }}
      ports:
        {{- if ne .role "alerting" }}
        - { name: api, containerPort: 8080 }
        {{- if ($root.Values.ingestTokens).otlpGrpc }}
        - { name: otlp-grpc, containerPort: 4317 }
        {{- end }}
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
