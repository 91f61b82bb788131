{{- define "agent.name" -}}
{{- $release := .Release.Name | replace "." "-" -}}
{{- if .Values.fullnameOverride }}{{ .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}{{ else if contains "cluster-agent" $release }}{{ $release | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-cluster-agent" ($release | trunc 36 | trimSuffix "-") }}{{ end -}}
{{- end }}

{{- define "agent.selector" -}}
app.kubernetes.io/name: cluster-agent
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "agent.labels" -}}
{{- $chart := printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 -}}
{{- $own := dict "app.kubernetes.io/version" (.Chart.AppVersion | replace "+" "_") "app.kubernetes.io/managed-by" .Release.Service "helm.sh/chart" $chart -}}
{{- mergeOverwrite (include "agent.selector" . | fromYaml) $own (.Values.commonLabels | default dict) | toYaml -}}
{{- end }}

{{- /* Name, namespace and labels of an object. Takes a list: root, suffix of the name, further labels. */ -}}
{{- define "agent.meta" -}}
{{- $labels := include "agent.labels" (first .) | fromYaml -}}
{{- range slice . 2 }}{{ $labels = mergeOverwrite $labels (. | default dict) }}{{ end -}}
name: {{ include "agent.name" (first .) }}{{ index . 1 }}
namespace: {{ (first .).Release.Namespace | quote }}
labels: {{- toYaml $labels | nindent 2 }}
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
{{- else }}{{ $image.repository }}:{{ $image.tag | default (.Chart.AppVersion | replace "+" "-") }}{{ end -}}
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
{{- if and (include "agent.scc" .) (ne (include "agent.hostAccess" .) "none") }}
# Files of a node have their own SELinux labels, which container_t may not read.
seLinuxOptions: { type: spc_t }
{{- end }}
{{- end }}

{{- /* Whether SecurityContextConstraints are created: as openshift.scc says, otherwise on OpenShift. */ -}}
{{- define "agent.scc" -}}
{{- $scc := (.Values.openshift).scc -}}
{{- if or (eq (toString $scc) "true") (and (eq (toString $scc) "auto") (.Capabilities.APIVersions.Has "security.openshift.io/v1")) }}true{{ end -}}
{{- end }}

{{- /* Mebibytes of the state without a folder of the node: the queues of the signals and of the cluster collector, and files beside them. */ -}}
{{- define "agent.stateMib" -}}
{{- $queues := include "agent.signals" . | splitList "," | len -}}
{{- if or (include "agent.clusterState" .) (include "agent.events" .) }}{{ $queues = add $queues 2 }}{{ end -}}
{{- add (mul $queues (int .Values.collector.queueMib)) 256 -}}
{{- end }}

{{- /* Without a folder of the node, an eviction loses the queue: requests cover what the pod may use. */ -}}
{{- define "agent.resources" -}}
{{- $resources := deepCopy (.Values.resources | default dict) -}}
{{- if eq (include "agent.hostAccess" .) "none" -}}
{{- $disk := dict "ephemeral-storage" (printf "%vMi" (add (include "agent.stateMib" .) 256)) -}}
{{- $memory := dig "limits" "memory" "" $resources -}}
{{- $resources = merge (dict "requests" (ternary (dict "memory" $memory) dict (ne (toString $memory) ""))) $resources -}}
{{- $resources = merge $resources (dict "requests" $disk "limits" $disk) -}}
{{- end -}}
{{- toYaml $resources -}}
{{- end }}

{{- /* The affinity of the values; and no node on which the agent cannot run (Fargate, virtual kubelets), or which has a pool of its own. */ -}}
{{- define "agent.affinity" -}}
{{- $not := list (dict "key" "eks.amazonaws.com/compute-type" "operator" "NotIn" "values" (list "fargate")) (dict "key" "type" "operator" "NotIn" "values" (list "virtual-kubelet")) -}}
{{- if not .pool }}{{ range .Values.pools }}{{ range $key, $value := .nodeSelector }}{{ $not = append $not (dict "key" $key "operator" "NotIn" "values" (list $value)) }}{{ end }}{{ end }}{{ end -}}
{{- $affinity := deepCopy (.Values.affinity | default dict) -}}
{{- $terms := list -}}
{{- range dig "nodeAffinity" "requiredDuringSchedulingIgnoredDuringExecution" "nodeSelectorTerms" (list dict) $affinity -}}
{{- $terms = append $terms (set . "matchExpressions" (concat (.matchExpressions | default list) $not)) -}}
{{- end -}}
{{- mergeOverwrite $affinity (dict "nodeAffinity" (dict "requiredDuringSchedulingIgnoredDuringExecution" (dict "nodeSelectorTerms" $terms))) | toYaml -}}
{{- end }}

{{- define "agent.priorityClass" -}}
{{ .Release.Namespace }}-{{ include "agent.name" . }}
{{- end }}
