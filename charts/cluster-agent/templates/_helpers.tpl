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

{{- define "agent.secretName" -}}
{{- (.Values.identity).secretName | default "cluster-agent-credentials" -}}
{{- end }}

{{- define "agent.leaseName" -}}
{{- (.Values.identity).leaseName | default "cluster-agent" -}}
{{- end }}

{{- define "agent.signals" -}}
{{- $signals := list -}}
{{- range $name := list "metrics" "logs" "traces" }}{{ if index $.Values.signals $name }}{{ $signals = append $signals $name }}{{ end }}{{ end -}}
{{- if not $signals }}{{ fail "signals: at least one of metrics, logs, traces must be on" }}{{ end -}}
{{- join "," $signals -}}
{{- end }}

{{- /* Whether state of the whole cluster is collected: "true" or nothing. Missing values, as in older releases, count as off. */ -}}
{{- define "agent.clusterState" -}}
{{- if and (.Values.clusterState).enabled .Values.signals.metrics }}true{{ end -}}
{{- end }}

{{- define "agent.monitors" -}}
{{- if and (.Values.discovery).prometheusOperator .Values.signals.metrics }}true{{ end -}}
{{- end }}

{{- define "agent.policies" -}}
{{- if and (dig "policies" false .Values.logs) .Values.signals.logs }}true{{ end -}}
{{- end }}

{{- define "agent.events" -}}
{{- if and (.Values.events).enabled .Values.signals.logs }}true{{ end -}}
{{- end }}

{{- define "agent.tokenSecret" -}}
{{- if .Values.installToken.existingSecret }}{{ .Values.installToken.existingSecret }}{{ else if .Values.installToken.value }}{{ include "agent.name" . }}-install-token{{ end -}}
{{- end }}

{{- define "agent.image" -}}
{{- $image := .Values.image -}}
{{- $named := contains "@" $image.repository -}}
{{- if and $named (or $image.tag $image.digest) }}{{ fail "image: repository names a digest already; leave tag and digest empty" }}{{ end -}}
{{- with (.Values.global).imageRegistry }}{{ trimSuffix "/" . }}/{{ end -}}
{{- if $named }}{{ $image.repository -}}
{{- else if $image.digest }}{{ $image.repository }}{{ with $image.tag }}:{{ . }}{{ end }}@{{ $image.digest -}}
{{- else }}{{ $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}{{ end -}}
{{- end }}

{{- /* Maps variables to values, so that error messages of the chart and the agent name the value. */ -}}
{{- define "agent.valueNames" -}}
ALLOW_OTHER_EXPORTERS: collector.allowOtherExporters
ALLOW_PLAIN_HTTP: allowPlainHttp
BACKEND_CA_FILE: backendCa
BACKEND_URL: backendUrl
CLUSTER_COLLECTOR_MEMORY_MIB: clusterCollector.memoryMib
CLUSTER_NAME: clusterName
CLUSTER_STATE: clusterState.enabled
COLLECTOR_CONFIG_FILE: collector.extraConfig
COLLECTOR_MEMORY_MIB: collector.memoryMib
COMPRESSION: compression
DROP_LOGS: drop.logs
DROP_METRICS: drop.metrics
DROP_TRACES: drop.traces
EXCLUDE_NAMESPACES: logs.excludeNamespaces
HEARTBEAT_INTERVAL: heartbeatInterval
REMOTE_CONFIG_INTERVAL: remoteConfigInterval
HOST_ACCESS: hostAccess
HTTPS_PROXY: proxy.httpsProxy
INSTALL_TOKEN: installToken
KEY_ROTATION_DAYS: keyRotationDays
KUBELET_TLS: kubelet.tls
KUBERNETES_EVENTS: events.enabled
LEASE_NAME: identity.leaseName
LOG_FIELDS: logs.fields
LOG_POLICIES: logs.policies
LOG_LEVEL: logLevel
LOG_MULTILINE_START: logs.multilineStart
METRICS_INTERVAL: metricsInterval
NO_PROXY: proxy.noProxy
POD_ANNOTATIONS: podAttributes.annotations
POD_LABELS: podAttributes.labels
POD_RELAY: podRelay.enabled
PROMETHEUS_OPERATOR: discovery.prometheusOperator
MONITORS_ACROSS_NAMESPACES: discovery.acrossNamespaces
QUEUE_MIB: collector.queueMib
REDACT: redact
SCRAPE_PODS: scrapePods.enabled
SECRET_NAME: identity.secretName
SIGNALS: signals
STATE_DIR: stateHostPath
TRACES_SAMPLE_PERCENT: tracesSamplePercent
TRUST_OTLP_IDENTITY: otlp.trustSenderIdentity
WORKLOAD_NAMES: workloadNames.enabled
{{- end }}

{{- /* Fails on settings with which the agent would not start, before a pod is created. */ -}}
{{- define "agent.check" -}}
{{- include "agent.checkBackend" . -}}
{{- include "agent.checkDuration" (dict "name" "metricsInterval" "text" .Values.metricsInterval) -}}
{{- include "agent.checkDuration" (dict "name" "heartbeatInterval" "text" .Values.heartbeatInterval) -}}
{{- if and .Values.installToken.existingSecret .Values.installToken.value }}{{ fail "installToken: existingSecret and value are both set: set one" }}{{ end -}}
{{- if and .Values.backendCa.configMap .Values.backendCa.secret }}{{ fail "backendCa: configMap and secret are both set: set one" }}{{ end -}}
{{- with .Values.kubelet.ca }}{{ if and .configMap .secret }}{{ fail "kubelet.ca: configMap and secret are both set: set one" }}{{ end -}}
{{- if and (or .configMap .secret) (eq $.Values.kubelet.tls "skip") }}{{ fail "kubelet.ca: kubelet.tls is skip, so no authority is asked: set one" }}{{ end }}{{ end -}}
{{- if and (eq (include "agent.hostAccess" .) "none") .Values.logs.dockerContainers }}{{ fail "logs.dockerContainers: hostAccess is none, so no files are read: set one" }}{{ end -}}
{{- if and (include "agent.policies" .) (not (dig "enabled" true (.Values.podRelay | default dict))) }}{{ fail "logs.policies: podRelay.enabled is false, so no annotation would redact: set one" }}{{ end -}}
{{- if and .Values.proxy.existingSecret .Values.proxy.httpsProxy }}{{ fail "proxy: existingSecret and httpsProxy are both set: set one" }}{{ end -}}
{{- with .Values.proxy.httpsProxy }}{{ if not (regexMatch "^https?://[^/]" .) }}{{ fail "proxy.httpsProxy: must be a URL that begins with http:// or https://" }}{{ end }}{{ end -}}
{{- with .Values.logs.multilineStart }}{{ include "logs.multilineStart must be a regular expression (RE2)" . }}{{ end -}}
{{- range .Values.redact }}{{ include "redact must hold regular expressions (RE2)" . }}{{ end -}}
{{- include "agent.checkMemory" . -}}
{{- if regexMatch "^/(|etc|usr|boot|run|home|root|var|var/lib|var/log|(proc|sys|dev|var/log/(pods|containers)|var/lib/(kubelet|containerd|containers|docker|etcd|rancher|cni))(/.*)?)$" (clean .Values.stateHostPath) }}{{ fail (printf "stateHostPath: %s belongs to the node: name a folder of the agents' own, such as /var/lib/atherops-agent" .Values.stateHostPath) }}{{ end -}}
{{- if not .Values.collector.allowOtherExporters -}}
{{- range $id, $_ := .Values.collector.extraConfig.exporters }}{{ if not (or (regexMatch "^debug(/.*)?$" $id) (regexMatch "^otlp_http/(atherops|atherops-metrics|files)$" $id)) -}}
{{- fail (printf "collector.extraConfig adds the exporter %s: telemetry leaves the node through the signing proxy only; set collector.allowOtherExporters=true if it shall also go elsewhere" $id) -}}
{{- end }}{{ end -}}
{{- end -}}
{{- $values := include "agent.valueNames" . | fromYaml -}}
{{- range $name, $_ := .Values.extraEnv -}}
{{- $variable := trimSuffix "_FILE" $name -}}
{{- with or (get $values $name) (get $values $variable) }}{{ fail (printf "extraEnv.%s: set the value %s instead" $name .) }}{{ end -}}
{{- if or (has $variable (list "NODE_NAME" "NODE_IP" "POD_NAMESPACE" "POD_UID" "VALUE_NAMES")) }}{{ fail (printf "extraEnv.%s: the chart sets this variable itself" $name) }}{{ end -}}
{{- end -}}
{{- end }}

{{- define "agent.checkBackend" -}}
{{- $url := urlParse (required "backendUrl is required: the scheme, host and port of the backend, for example https://telemetry.example.com" .Values.backendUrl) -}}
{{- $port := regexFind ":[0-9]+$" $url.host | trimPrefix ":" | int -}}
{{- if or (not (has $url.scheme (list "http" "https"))) (not $url.hostname) (gt $port 65535) }}{{ fail "backendUrl: must be a URL that begins with https:// or http://, for example https://telemetry.example.com" }}{{ end -}}
{{- if or $url.userinfo $url.query $url.fragment (not (has $url.path (list "" "/"))) }}{{ fail "backendUrl: scheme, host and port only, for example https://telemetry.example.com:8443" }}{{ end -}}
{{- $isLoopback := regexMatch "^(localhost|127(\\.[0-9]+){3}|::1)$" $url.hostname -}}
{{- if and (eq $url.scheme "http") (not .Values.allowPlainHttp) (not $isLoopback) -}}
{{- fail "backendUrl: with plain http, telemetry is sent unencrypted: use https, or set allowPlainHttp=true (inside one cluster that you trust)" -}}
{{- end -}}
{{- $_ := required "clusterName is required: how the backend names this cluster" .Values.clusterName -}}
{{- end }}

{{- /* The schema has validated the format; this checks that it is at least a second. */ -}}
{{- define "agent.checkDuration" -}}
{{- $units := dict "ms" 1 "s" 1000 "m" 60000 "h" 3600000 "d" 86400000 "w" 604800000 -}}
{{- $ms := 0 -}}
{{- range regexFindAll "[0-9]+(ms|[wdhms])" .text -1 }}{{ $ms = add $ms (mul (regexFind "[0-9]+" . | int64) (index $units (regexFind "[a-z]+" .))) }}{{ end -}}
{{- if lt (int64 $ms) 1000 }}{{ fail (printf "%s: must be a duration of at least 1s, such as 15s or 5m" .name) }}{{ end -}}
{{- end }}

{{- /* The error message for an invalid expression begins with this name. */ -}}
{{- define "logs.multilineStart must be a regular expression (RE2)" -}}
{{- $_ := mustRegexMatch . "" -}}
{{- end }}

{{- define "redact must hold regular expressions (RE2)" -}}
{{- $_ := mustRegexMatch . "" -}}
{{- end }}

{{- /* The node's collectors exit at their memory limits, so the pod's limit must hold these limits and the agent's own memory. The default
       limit also has space for 64 MiB of bodies in flight. */ -}}
{{- define "agent.checkMemory" -}}
{{- $text := dig "limits" "memory" "" .Values.resources | toString -}}
{{- $units := dict "" 1.0 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "Ki" 1024.0 "Mi" 1048576.0 "Gi" 1073741824.0 "Ti" 1099511627776.0 -}}
{{- $parts := regexFindAll "^[0-9.]+|(k|Ki|[MGT]i?)$" $text -1 -}}
{{- if and $parts (regexMatch "^[0-9.]+(k|Ki|[MGT]i?)?$" $text) -}}
{{- $limit := divf (mulf (float64 (first $parts)) (get $units (ternary (last $parts) "" (gt (len $parts) 1)))) 1048576.0 -}}
{{- $collects := or (include "agent.clusterState" .) (include "agent.events" .) -}}
{{- $own := 110 -}}
{{- $cluster := ternary ((.Values.clusterCollector).memoryMib | default 200) 0 (ne $collects "") -}}
{{- $needed := addf $own .Values.collector.memoryMib $cluster -}}
{{- if gt $needed $limit -}}
{{- fail (printf "resources.limits.memory: %s is less than the %.0f MiB that a pod may use: collector.memoryMib (%v)%s and %d for the agent; raise the limit or lower these" $text $needed .Values.collector.memoryMib (ternary (printf ", clusterCollector.memoryMib (%v)" $cluster) "" (ne $collects "")) $own) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /* Ports to which the agent connects, as a JSON list. */ -}}
{{- define "agent.waysOut" -}}
{{- $ports := list 443 6443 10250 -}}
{{- range list .Values.backendUrl .Values.proxy.httpsProxy }}{{ with . -}}
{{- $url := urlParse . -}}
{{- $ports = append $ports (regexFind ":[0-9]+$" $url.host | trimPrefix ":" | default (ternary "443" "80" (eq $url.scheme "https")) | int) -}}
{{- end }}{{ end -}}
{{- $ports | uniq | toJson -}}
{{- end }}

{{- /* The default for values of a release that did not have this value yet. */ -}}
{{- define "agent.hostAccess" -}}{{ .Values.hostAccess | default "full" }}{{- end }}

{{- define "agent.readsLogFiles" -}}
{{- if and .Values.signals.logs (ne (include "agent.hostAccess" .) "none") }}true{{ end -}}
{{- end }}

{{- define "agent.kubeletCa" -}}
{{- with .Values.kubelet.ca }}{{ or .configMap .secret }}{{ end -}}
{{- end }}

{{- define "agent.podSecurity" -}}
seccompProfile: { type: RuntimeDefault }
{{- if eq (include "agent.hostAccess" .) "none" }}
runAsNonRoot: true
fsGroup: 1000
{{- end }}
{{- end }}

{{- define "agent.containerSecurity" -}}
{{- $user := ternary 1000 0 (eq (include "agent.hostAccess" .) "none") -}}
runAsUser: {{ $user }}
runAsGroup: {{ $user }}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
  {{- if include "agent.readsLogFiles" . }}
  add: [DAC_READ_SEARCH]
  {{- end }}
{{- if and (.Values.openshift).scc (ne (include "agent.hostAccess" .) "none") }}
# Files of a node have their own SELinux labels, which container_t may not read.
seLinuxOptions: { type: spc_t }
{{- end }}
{{- end }}
