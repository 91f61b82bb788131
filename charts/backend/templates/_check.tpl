{{- /* Fails on settings with which the backend would not start, before a pod is created; and on an Ingress that would make all clients look
       like one. */ -}}
{{- define "backend.check" -}}
{{- $name := include "backend.name" . -}}
{{- if not (regexMatch "^[a-z]" $name) }}{{ fail (printf "fullnameOverride: set a name that begins with a letter, because Services cannot be called %s, as the release is" $name) }}{{ end -}}
{{- if and .Values.ingress.enabled (not .Values.trustedProxies) -}}
{{- fail "trustedProxies is required with ingress.enabled: the addresses or CIDRs from which the ingress controller's pods connect (kubectl get pods -A -o wide shows them). Without it all clients have the controller's address, and a client that guesses an account's password delays every login to that account. A client at one of these addresses may claim any other address: list only those that the controller needs" -}}
{{- end -}}
{{- range .Values.trustedProxies }}{{ if not (regexMatch "^([0-9]{1,3}(\\.[0-9]{1,3}){3}(/([0-9]|[12][0-9]|3[0-2]))?|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*(/([0-9]{1,2}|1[01][0-9]|12[0-8]))?|loopback|linklocal|uniquelocal)$" .) -}}
{{- fail (printf "trustedProxies: %q is not an address or CIDR, such as 10.0.0.0/8" .) -}}
{{- end }}{{ end -}}
{{- range (.Values.notification).allowedNetworks }}{{ if not (regexMatch "^([0-9]{1,3}(\\.[0-9]{1,3}){3}(/([0-9]|[12][0-9]|3[0-2]))?|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*(/([0-9]{1,2}|1[01][0-9]|12[0-8]))?)$" .) -}}
{{- fail (printf "notification.allowedNetworks: %q is not an address or CIDR, such as 10.0.0.0/8" .) -}}
{{- end }}{{ end -}}
{{- if and (eq .Values.mode "distributed") (not .Values.secrets.existingSecret) (not (lookup "v1" "Secret" .Release.Namespace (include "backend.secret" .))) -}}
{{- fail (printf "secrets.existingSecret is required with mode=distributed: a Secret with MASTER_KEY (openssl rand -base64 32), JWT_SECRET (openssl rand -base64 48) and ADMIN_PASSWORD. If an earlier version of this chart has made one, set secrets.existingSecret=%s" (include "backend.secret" .)) -}}
{{- end -}}
{{- if eq .Values.mode "distributed" }}{{ with .Values.distributed -}}
{{- $_ := required "distributed.connectionSecret is required: a Secret with DATABASE_URL and CLICKHOUSE_URL" .connectionSecret -}}
{{- $_ := required "distributed.metrics.writeUrl is required: the URL of vminsert or VictoriaMetrics" .metrics.writeUrl -}}
{{- $_ := required "distributed.metrics.queryUrl is required: the URL of vmselect or VictoriaMetrics" .metrics.queryUrl -}}
{{- $_ := required "distributed.vmalert.queryUrl is required: the URL of vmalert" .vmalert.queryUrl -}}
{{- end }}{{ end -}}
{{- with .Values.gateway }}{{ if and .enabled (not .parentRefs) }}{{ fail "gateway.parentRefs is required with gateway.enabled: the Gateway, such as [{ name: public }]" }}{{ end }}{{ end -}}
{{- if and (ne .Values.service.type "ClusterIP") (not .Values.tls.secretName) (not .Values.service.allowPlainHttp) -}}
{{- fail (printf "service.type=%s exposes passwords and telemetry without TLS: set tls.secretName, or service.allowPlainHttp=true if a load balancer in front ends TLS" .Values.service.type) -}}
{{- end -}}
{{- range $role := list "api" "alerting" }}{{ with index $.Values.distributed $role }}
{{- if and (.autoscaling).enabled (lt (int .autoscaling.maxReplicas) (int .replicas)) }}{{ fail (printf "distributed.%s.autoscaling.maxReplicas: %v is less than replicas (%v)" $role .autoscaling.maxReplicas .replicas) }}{{ end -}}
{{- if and (.persistence).size (gt (len $name) 48) }}{{ fail "distributed.api.persistence.size: the name of the release is too long for the pods of a StatefulSet: set fullnameOverride to at most 48 characters" }}{{ end -}}
{{- include "backend.checkLabels" . -}}
{{- end }}{{ end -}}
{{- include "backend.checkLabels" .Values -}}
{{- if and .Values.persistence.chown (include "backend.openshift" .) }}{{ fail "persistence.chown: on OpenShift, the pods have a user of the namespace's range, to which fsGroup gives the volume: leave it false" }}{{ end -}}
{{- with (.Values.notification).smtp }}{{ if and .existingSecret (not .from) }}{{ fail "notification.smtp.from is required with notification.smtp.existingSecret: the sender's address" }}{{ end }}{{ end -}}
{{- with .Values.ingestTokens }}
{{- if and (or .overHttp .otlpGrpc) (not .enabled) }}{{ fail "ingestTokens.enabled is required with ingestTokens.overHttp and ingestTokens.otlpGrpc" }}{{ end -}}
{{- if and .otlpGrpc (not (or .overHttp $.Values.tls.secretName)) }}{{ fail "ingestTokens.otlpGrpc: the listener refuses tokens without TLS: set tls.secretName, or ingestTokens.overHttp=true" }}{{ end -}}
{{- end -}}
{{- include "backend.checkUrl" (dict "name" "publicUrl" "url" .Values.publicUrl) -}}
{{- include "backend.checkDuration" (dict "name" "evaluation.interval" "text" .Values.evaluation.interval) -}}
{{- include "backend.checkDuration" (dict "name" "jwtTtl" "text" .Values.jwtTtl) -}}
{{- if gt (include "backend.seconds" .Values.drainDelay | int) (sub (int .Values.terminationGracePeriodSeconds) 10 | int) }}{{ fail "drainDelay: must be at least 10 seconds shorter than terminationGracePeriodSeconds, so that accepted data is stored" }}{{ end -}}
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
{{- $rows := .Files.Get "settings.json" | fromJson -}}
{{- range $name, $_ := .Values.extraEnv -}}
{{- $variable := trimSuffix "_FILE" $name -}}
{{- with or (get $rows $name) (get $rows $variable) }}{{ fail (printf "extraEnv.%s: set the value %s instead" $name .value) }}{{ end -}}
{{- if has $variable (list "API_LISTEN" "ALERTING_LISTEN" "HEALTH_LISTEN" "ALERTING_URL" "RULES_LISTEN" "SECRETS_FOLDER") }}{{ fail (printf "extraEnv.%s: the chart sets this variable itself" $name) }}{{ end -}}
{{- end -}}
{{- end }}

{{- define "backend.checkLabels" -}}
{{- range $name := list "podLabels" "commonLabels" }}{{ range $label, $_ := index $ $name }}{{ if regexMatch "^app\\.kubernetes\\.io/(name|instance|component)$" $label }}{{ fail (printf "%s: the chart sets %s itself" $name $label) }}{{ end }}{{ end }}{{ end -}}
{{- end }}

{{- define "backend.checkUrl" -}}
{{- with .url }}{{ if not (regexMatch "^https?://[^/]" .) }}{{ fail (printf "%s: must be a URL that begins with http:// or https://" $.name) }}{{ end }}{{ end -}}
{{- end }}

{{- /* The schema has validated the format; this checks that it is at least a second. */ -}}
{{- define "backend.checkDuration" -}}
{{- if regexMatch "^(0*|[0-9]{0,3}ms|0+[a-z]+)$" .text }}{{ fail (printf "%s: must be a duration of at least 1s, such as 15s or 5m" .name) }}{{ end -}}
{{- end }}

{{- /* Whole seconds of a duration; 0 if it is absent. */ -}}
{{- define "backend.seconds" -}}
{{- $units := dict "ms" 0 "s" 1 "m" 60 "h" 3600 "d" 86400 "w" 604800 -}}
{{- $seconds := 0 -}}
{{- range regexFindAll "[0-9]+(ms|[wdhms])" (. | default "0s") -1 }}{{ $seconds = add $seconds (mul (regexFind "[0-9]+" . | int64) (index $units (regexFind "[a-z]+" .))) }}{{ end -}}
{{- $seconds -}}
{{- end }}
