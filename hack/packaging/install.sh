#!/bin/sh
# Installs, upgrades or removes the host agent from this folder. Usage, as root: ./install.sh [--remove]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
systemd() { [ ! -d /run/systemd/system ] || systemctl "$@"; }
if [ "${1:-}" = --remove ]; then
  systemd disable --now atherops-otel-agent.service || true
  rm -rf /usr/lib/atherops-otel-agent /usr/bin/atherops-otel-agent /usr/lib/systemd/system/atherops-otel-agent.service
  systemd daemon-reload
  echo "removed; kept: /etc/atherops (settings, key), /var/lib/atherops-otel-agent (what was not sent yet)"
  exit 0
fi
install -d -m 0755 /usr/lib/atherops-otel-agent /usr/lib/systemd/system
install -d -m 0700 /etc/atherops
# A running program's file cannot be written to, but it can be replaced.
for file in "$here"/usr/lib/atherops-otel-agent/*; do
  target=/usr/lib/atherops-otel-agent/$(basename "$file")
  cp "$file" "$target.new" && mv "$target.new" "$target"
done
install -m 0755 "$here/usr/bin/atherops-otel-agent" /usr/bin/atherops-otel-agent
install -m 0644 "$here/usr/lib/systemd/system/atherops-otel-agent.service" /usr/lib/systemd/system/
[ -e /etc/atherops/agent.env ] || install -m 0600 "$here/agent.env" /etc/atherops/agent.env
systemd daemon-reload
systemd try-restart atherops-otel-agent.service
grep -q '^BACKEND_URL=.' /etc/atherops/agent.env ||
  echo "set BACKEND_URL and INSTALL_TOKEN in /etc/atherops/agent.env, then: systemctl enable --now atherops-otel-agent"
