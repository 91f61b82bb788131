{{- define "backend.mounts" -}}
- { name: tmp, mountPath: /tmp }
- { name: data, mountPath: /data }
- { name: secrets, mountPath: /run/secrets/atherops, readOnly: true }
{{- if .Values.tls.secretName }}
- { name: tls, mountPath: /run/secrets/tls, readOnly: true }
{{- end }}
{{- if and (eq .Values.mode "embedded") (.Values.backup).existingClaim }}
- { name: backup, mountPath: /backup }
{{- end }}
{{- with .Values.extraVolumeMounts }}{{ toYaml . | nindent 0 }}{{ end }}
{{- end }}

{{- /* All secrets are files of one folder, SECRETS_FOLDER. */ -}}
{{- define "backend.volumes" -}}
- { name: tmp, emptyDir: { sizeLimit: 1Gi } }
- name: secrets
  projected:
    defaultMode: 0440
    sources:
      # Without existingSecret, it is optional: the embedded form then generates its secrets in /data/secrets at the first start.
      - secret: { name: {{ include "backend.secret" . | quote }}{{ if not .Values.secrets.existingSecret }}, optional: true{{ end }} }
      {{- with (.Values.firstInstallToken).existingSecret }}
      # Optional: nothing reads it after the first start.
      - secret: { name: {{ . | quote }}, optional: true, items: [{ key: {{ $.Values.firstInstallToken.key | quote }}, path: FIRST_INSTALL_TOKEN }] }
      {{- end }}
      {{- with ((.Values.notification).smtp).existingSecret }}
      - secret: { name: {{ . | quote }}, items: [{ key: SMTP_URL, path: SMTP_URL }] }
      {{- end }}
      {{- if eq .Values.mode "distributed" }}
      - secret: { name: {{ .Values.distributed.connectionSecret | quote }} }
      {{- end }}
{{- if .Values.tls.secretName }}
- name: tls
  secret: { secretName: {{ .Values.tls.secretName | quote }}, defaultMode: 0440 }
{{- end }}
{{- if eq .Values.mode "embedded" }}
- name: data
  persistentVolumeClaim: { claimName: {{ .Values.persistence.existingClaim | default (printf "%s-data" (include "backend.name" .)) | quote }} }
{{- with (.Values.backup).existingClaim }}
- name: backup
  persistentVolumeClaim: { claimName: {{ . | quote }} }
{{- end }}
{{- end }}
{{- with .Values.extraVolumes }}{{ toYaml . | nindent 0 }}{{ end }}
{{- end }}

{{- define "backend.podSecurity" -}}
runAsNonRoot: true
{{- if not (include "backend.openshift" .) }}
runAsUser: 1000
runAsGroup: 1000
fsGroup: 1000
{{- end }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile: { type: RuntimeDefault }
{{- end }}

{{- define "backend.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end }}

{{- /* Fields of pods that a value of the same name sets: of the role, otherwise of the chart. Takes a dict: root, values, names. */ -}}
{{- define "backend.podFields" -}}
{{- $given := . -}}
{{- range $name := .names }}{{ with index $given.values $name | default (index $given.root.Values $name) }}
{{ $name }}: {{- if kindIs "string" . }} {{ . | quote }}{{ else }}{{ toYaml . | nindent 2 }}{{ end }}
{{- end }}{{ end }}
{{- end }}

{{- /* Keeps replicas of a role apart. Takes a dict: root, role, values. */ -}}
{{- define "backend.spread" -}}
{{- $labels := merge (dict "app.kubernetes.io/component" .role) (include "backend.selector" .root | fromYaml) -}}
{{- range .values.topologySpreadConstraints | default .root.Values.topologySpreadConstraints }}
- {{ merge (deepCopy .) (dict "labelSelector" (dict "matchLabels" $labels) "matchLabelKeys" (list "pod-template-hash")) | toJson }}
{{- end }}
{{- end }}

{{- /* The pod with its container. Takes a dict: root, role (empty: both), values (of the role), hasClaim. */ -}}
{{- define "backend.pod" -}}
{{- $root := .root -}}
{{- $values := .values -}}
{{- $chown := and (eq $root.Values.mode "embedded") $root.Values.persistence.chown -}}
{{- $podAnnotations := merge (dict) (ternary (dict "kubectl.kubernetes.io/default-container" "backend") dict (or $chown (not (empty $root.Values.extraContainers)))) (($values.podAnnotations | default $root.Values.podAnnotations) | default dict) -}}
metadata:
  # Without the version of the chart: a new one would restart every pod.
  labels:
    {{- include "backend.selector" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .role | default "all" }}
    {{- with merge (dict) ($values.podLabels | default $root.Values.podLabels | default dict) ($root.Values.commonLabels | default dict) }}{{ toYaml . | nindent 4 }}{{ end }}
  {{- with $podAnnotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ $root.Values.serviceAccount.name | default (include "backend.name" $root) | quote }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ $root.Values.terminationGracePeriodSeconds }}
  {{- with include "backend.podFields" (dict "root" $root "values" $values "names" (list "imagePullSecrets" "priorityClassName" "nodeSelector" "tolerations" "affinity" "hostAliases" "dnsConfig")) | trim }}{{ . | nindent 2 }}{{ end }}
  {{- if .role }}{{ with include "backend.spread" . | trim }}
  topologySpreadConstraints: {{- . | nindent 4 }}
  {{- end }}{{ end }}
  securityContext: {{- mergeOverwrite (include "backend.podSecurity" $root | fromYaml) ($root.Values.podSecurityContext | default dict) | toYaml | nindent 4 }}
  {{- if or $chown $root.Values.initContainers }}
  initContainers:
    {{- if $chown }}
    # fsGroup has no effect on a volume that the node or an NFS server owns, so this container changes its owner. It is the only one that runs
    # as root.
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
      resources: { requests: { cpu: 10m, memory: 16Mi }, limits: { cpu: 500m, memory: 64Mi } }
      volumeMounts:
        - { name: data, mountPath: /data }
    {{- end }}
    {{- with $root.Values.initContainers }}{{ toYaml . | nindent 4 }}{{ end }}
  {{- end }}
  containers:
    - name: backend
      image: {{ include "backend.image" $root }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      args: [serve{{ with .role }}, --roles, {{ . }}{{ end }}]
      env: {{- include "backend.env" . | trim | nindent 8 }}
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
      # /healthz responds before the engines are open, so that a long recovery is not ended; /readyz responds 200 after it.
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
      {{- with $root.Values.lifecycle }}
      lifecycle: {{- toYaml . | nindent 8 }}
      {{- end }}
      resources: {{- toYaml ($values.resources | default $root.Values.resources) | nindent 8 }}
      securityContext: {{- mergeOverwrite (include "backend.containerSecurity" $root | fromYaml) ($root.Values.securityContext | default dict) | toYaml | nindent 8 }}
      volumeMounts: {{- include "backend.mounts" $root | nindent 8 }}
    {{- with $root.Values.extraContainers }}{{ toYaml . | nindent 4 }}{{ end }}
  volumes:
    {{- include "backend.volumes" $root | nindent 4 }}
    {{- if and .role (not .hasClaim) }}
    # More than the journal of acknowledged samples (2 GiB), so that the pod is not evicted with it.
    - { name: data, emptyDir: { sizeLimit: 3Gi } }
    {{- end }}
{{- end }}
