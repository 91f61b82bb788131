#!/bin/sh
# Runs the host agent with the Node.js and the collector of its package. Its settings are in /etc/atherops/agent.env: systemd passes them
# as variables; a manual call reads them here, as text, because the format is systemd's, not a shell's. Variables that are set take
# precedence.
settings=/etc/atherops/agent.env
if [ -r "$settings" ]; then
  while IFS= read -r line || [ -n "$line" ]; do
    name=${line%%=*} value=${line#*=}
    case $name in '' | [0-9]* | *[!A-Z0-9_]*) continue ;; esac
    case $value in \"*\" | \'*\') value=${value#?} value=${value%?} ;; esac
    eval "known=\${$name+yes}"
    [ "$known" ] || export "$name=$value"
  done <"$settings"
elif [ "$(id -u)" != 0 ]; then
  echo "atherops-otel-agent: $settings is root's alone, and was not read: try sudo" >&2
fi
lib=/usr/lib/atherops-otel-agent
export NODE_ENV=production MALLOC_ARENA_MAX=1
export OTELCOL_PATH="${OTELCOL_PATH:-$lib/otelcol-contrib}" HEALTH_LISTEN="${HEALTH_LISTEN:-127.0.0.1:9598}"
exec "$lib/node" --single-threaded-gc --max-semi-space-size=1 "$lib/atherops-otel-agent.js" "$@"
