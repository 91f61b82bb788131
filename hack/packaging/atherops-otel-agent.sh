#!/bin/sh
# The host agent's command, with the Node.js and the collector that came with it. Settings for a call by hand: /etc/atherops/agent.env.
if [ -r /etc/atherops/agent.env ]; then
  set -a
  . /etc/atherops/agent.env
  set +a
fi
lib=/usr/lib/atherops-otel-agent
export NODE_ENV=production MALLOC_ARENA_MAX=1 OTELCOL_PATH="${OTELCOL_PATH:-$lib/otelcol-contrib}"
exec "$lib/node" --enable-source-maps --max-semi-space-size=2 "$lib/atherops-otel-agent.js" "$@"
