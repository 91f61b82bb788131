{{- /* Fails on settings with which the agent would not start, before a pod is created. */ -}}
{{- define "agent.check" -}}
{{- include "agent.checkBackend" . -}}
{{- include "agent.checkDuration" (dict "name" "metricsInterval" "text" .Values.metricsInterval) -}}
{{- include "agent.checkDuration" (dict "name" "heartbeatInterval" "text" .Values.heartbeatInterval) -}}
{{- $grace := (.Values.extraEnv).COLLECTOR_STOP_GRACE | default "35s" | toString -}}
{{- if gt (div (include "agent.milliseconds" $grace | int64) 1000 | add 20 | int64) (int64 .Values.terminationGracePeriodSeconds) }}{{ fail (printf "terminationGracePeriodSeconds: must be at least 20 seconds longer than COLLECTOR_STOP_GRACE (%s): the agent sends what the collector hands over, and ends after it" $grace) }}{{ end -}}
{{- if and .Values.installToken.existingSecret .Values.installToken.value }}{{ fail "installToken: existingSecret and value are both set: set one" }}{{ end -}}
{{- with .Values.identity }}{{ if and .workload (not .audience) }}{{ fail "identity.workload: set identity.audience to the audience of the trusted issuer (atherops issuers)" }}{{ end }}{{ end -}}
{{- if and .Values.backendCa.configMap .Values.backendCa.secret }}{{ fail "backendCa: configMap and secret are both set: set one" }}{{ end -}}
{{- with .Values.kubelet.ca }}{{ if and .configMap .secret }}{{ fail "kubelet.ca: configMap and secret are both set: set one" }}{{ end -}}
{{- if and (or .configMap .secret) (eq $.Values.kubelet.tls "skip") }}{{ fail "kubelet.ca: kubelet.tls is skip, so no authority is asked: set one" }}{{ end }}{{ end -}}
{{- if and (eq (include "agent.hostAccess" .) "none") .Values.logs.dockerContainers }}{{ fail "logs.dockerContainers: hostAccess is none, so no files are read: set one" }}{{ end -}}
{{- if and (include "agent.policies" .) (not (dig "enabled" true (.Values.podRelay | default dict))) }}{{ fail "logs.policies: podRelay.enabled is false, so no annotation would redact: set one" }}{{ end -}}
{{- if and .Values.proxy.existingSecret .Values.proxy.httpsProxy }}{{ fail "proxy: existingSecret and httpsProxy are both set: set one" }}{{ end -}}
{{- with .Values.proxy.httpsProxy }}{{ if not (regexMatch "^https?://[^/]" .) }}{{ fail "proxy.httpsProxy: must be a URL that begins with http:// or https://" }}{{ end }}{{ end -}}
{{- if and .Values.networkPolicy.enabled (.Values.networkPolicy.egress).enabled .Values.proxy.existingSecret (not .Values.networkPolicy.egress.more) }}{{ fail "networkPolicy.egress.more: the port of the proxy in proxy.existingSecret is not known here: add a rule for it" }}{{ end -}}
{{- with .Values.logs.multilineStart }}{{ include "logs.multilineStart must be a regular expression (RE2)" . }}{{ end -}}
{{- range .Values.redact }}{{ include "redact must hold regular expressions (RE2)" . }}{{ end -}}
{{- include "agent.checkMemory" . -}}
{{- if regexMatch "^/(|etc|usr|boot|run|home|root|var|var/lib|var/log|(proc|sys|dev|var/log/(pods|containers)|var/lib/(kubelet|containerd|containers|docker|etcd|rancher|cni))(/.*)?)$" (clean .Values.stateHostPath) }}{{ fail (printf "stateHostPath: %s belongs to the node: name a folder of the agents' own, such as /var/lib/atherops-agent" .Values.stateHostPath) }}{{ end -}}
{{- if not .Values.collector.allowOtherExporters -}}
{{- range $id, $_ := (.Values.collector.extraConfig).exporters }}{{ if not (or (regexMatch "^debug(/.*)?$" $id) (regexMatch "^otlp_http/(atherops|atherops-metrics|files)$" $id)) -}}
{{- fail (printf "collector.extraConfig adds the exporter %s: telemetry leaves the node through the signing proxy only; set collector.allowOtherExporters=true if it shall also go elsewhere" $id) -}}
{{- end }}{{ end -}}
{{- end -}}
{{- if and .Values.otlpService.enabled (not (regexMatch "^[a-z]" (include "agent.name" .))) }}{{ fail (printf "fullnameOverride: set a name that begins with a letter, because a Service cannot be called %s" (include "agent.name" .)) }}{{ end -}}
{{- $pools := list -}}
{{- range .Values.pools }}{{ if has .name $pools }}{{ fail (printf "pools: two are named %s" .name) }}{{ end }}{{ $pools = append $pools .name }}{{ end -}}
{{- range $values := concat (list .Values) (.Values.pools | default list) }}{{ range $name := list "podLabels" "commonLabels" }}{{ range $label, $_ := index $values $name }}{{ if regexMatch "^(app\\.kubernetes\\.io/(name|instance)|atherops\\.io/pool)$" $label }}{{ fail (printf "%s: the chart sets %s itself" $name $label) }}{{ end }}{{ end }}{{ end }}{{ end -}}
{{- $rows := .Files.Get "settings.json" | fromJson -}}
{{- range $name, $_ := .Values.extraEnv -}}
{{- $variable := trimSuffix "_FILE" $name -}}
{{- with or (get $rows $name) (get $rows $variable) }}{{ fail (printf "extraEnv.%s: set the value %s instead" $name .value) }}{{ end -}}
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

{{- define "agent.milliseconds" -}}
{{- $units := dict "ms" 1 "s" 1000 "m" 60000 "h" 3600000 "d" 86400000 "w" 604800000 -}}
{{- $ms := 0 -}}
{{- range regexFindAll "[0-9]+(ms|[wdhms])" . -1 }}{{ $ms = add $ms (mul (regexFind "[0-9]+" . | int64) (index $units (regexFind "[a-z]+" .))) }}{{ end -}}
{{- $ms -}}
{{- end }}

{{- /* The schema has validated the format; this checks that it is at least a second. */ -}}
{{- define "agent.checkDuration" -}}
{{- if lt (include "agent.milliseconds" .text | int64) 1000 }}{{ fail (printf "%s: must be a duration of at least 1s, such as 15s or 5m" .name) }}{{ end -}}
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
{{- $memory := dig "limits" "memory" "" (.Values.resources | default dict) -}}
{{- $text := ternary (int64 $memory) $memory (kindIs "float64" $memory) | toString -}}
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
