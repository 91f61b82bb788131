#!/usr/bin/env bash
# Regenerates go.mod and go.sum of every tool for the versions below. Run it after changing a version here and in hack/fetch-tools.ts
# (hack/fetch-tools.engine.test.ts compares the two). Needs Go and a module proxy. Usage: hack/tools/update.sh [tool…]
set -euo pipefail
cd "$(dirname "$0")"
export GOWORK=off GOFLAGS=

VICTORIA_METRICS=v1.150.0 OTELCOL=v0.149.0 HELM=v4.3.1 KUBERNETES=v1.34.4 ETCD=v3.6.6 KIND=v0.33.0 NFPM=v2.45.1 CRANE=v0.22.1 LOKI=v3.7.8 ALERTMANAGER=v0.31.1

# pin FOLDER VERSION PACKAGE…: creates a module that only pins these programs.
pin() {
  local folder=$1 version=$2
  shift 2
  mkdir -p "$folder"
  rm -f "$folder/go.sum"
  [ -n "${keep:-}" ] || printf 'module atherops.local/tools/%s\n\ngo 1.24.0\n' "$folder" >"$folder/go.mod"
  (cd "$folder" && go get -tool "${@/%/@$version}" && go mod tidy)
  echo "pinned $folder $version"
}

victoria_metrics() {
  pin victoria-metrics "$VICTORIA_METRICS" github.com/VictoriaMetrics/VictoriaMetrics/app/{victoria-metrics,vmalert}
}
helm() { pin helm "$HELM" helm.sh/helm/v4/cmd/helm; }
etcd() { pin etcd "$ETCD" go.etcd.io/etcd/server/v3; }
kind() { pin kind "$KIND" sigs.k8s.io/kind; }
nfpm() { pin nfpm "$NFPM" github.com/goreleaser/nfpm/v2/cmd/nfpm; }
alertmanager() { pin alertmanager "$ALERTMANAGER" github.com/prometheus/alertmanager/cmd/alertmanager; }
crane() { pin crane "$CRANE" github.com/google/go-containerregistry/cmd/crane; }

# `replace` lines of a go.mod apply only in the main module, so Loki's forks are repeated here. `-e`: tests of its dependencies import
# modules that no longer exist; the build needs none of them.
loki() {
  local theirs
  theirs=$(go mod download -json "github.com/grafana/loki/v3@$LOKI" | sed -n 's/.*"GoMod": "\(.*\)",/\1/p')
  mkdir -p loki
  rm -f loki/go.sum
  {
    printf 'module atherops.local/tools/loki\n\n'
    grep '^go ' "$theirs"
    printf '\nreplace (\n'
    sed -n 's|^replace \(.* => [^.].*\)|\t\1|p' "$theirs"
    printf ')\n'
  } >loki/go.mod
  (cd loki && go get -tool "github.com/grafana/loki/v3/cmd/loki@$LOKI" && go mod tidy -e)
  echo "pinned loki $LOKI"
}

# Kubernetes requires its own parts as v0.0.0 and replaces them in its go.mod, which applies only in the main module: repeated here.
kubernetes() {
  local parts=v0.${KUBERNETES#v1.} theirs
  theirs=$(go mod download -json "k8s.io/kubernetes@$KUBERNETES" | sed -n 's/.*"GoMod": "\(.*\)",/\1/p')
  mkdir -p kubernetes
  {
    printf 'module atherops.local/tools/kubernetes\n\ngo 1.24.0\n\nreplace (\n'
    sed -n "s|^\t\(k8s.io/[^ ]*\) => ./staging/.*|\t\1 => \1 $parts|p" "$theirs"
    printf ')\n'
  } >kubernetes/go.mod
  keep=1 pin kubernetes "$KUBERNETES" k8s.io/kubernetes/cmd/{kube-apiserver,kubectl}
}

# The builder and the collectors that it generates are separate modules; their go.mod and go.sum are those that the builder resolves.
otelcol() {
  pin otelcol-builder "$OTELCOL" go.opentelemetry.io/collector/cmd/builder
  for distribution in otelcol-contrib otelcol-host; do collector "$distribution"; done
}

collector() {
  local made
  made=$(mktemp -d)
  sed "s|^dist:|dist:\n  output_path: $made|" "$1/manifest.yaml" >"$made/manifest.yaml"
  (cd otelcol-builder && go tool builder --config "$made/manifest.yaml" --skip-compilation)
  cp "$made/go.mod" "$made/go.sum" "$1/"
  rm -rf "$made"
}

for tool in "${@:-victoria_metrics helm etcd kind nfpm crane alertmanager loki kubernetes otelcol}"; do
  for one in $tool; do "$one"; done
done
