#!/bin/sh
# Installs, upgrades or removes the host agent from this folder. Usage, as root: ./install.sh [--remove | --purge]
#   --remove   keeps settings, key, and what was not sent yet
#   --purge    takes them along
set -eu
[ "$(id -u)" = 0 ] || { echo "install.sh: needs root" >&2; exit 1; }
case "${1:-}" in '' | --remove | --purge) ;; *) sed -n '2,4s/^# //p' "$0" >&2; exit 2 ;; esac
here=$(cd "$(dirname "$0")" && pwd)
systemd() { [ ! -d /run/systemd/system ] || systemctl "$@"; }
if [ -d /var/lib/dpkg/info ] && ls /var/lib/dpkg/info/atherops-otel-agent.list >/dev/null 2>&1; then
  echo "install.sh: the package atherops-otel-agent is installed here: upgrade or remove it with apt" >&2
  exit 1
fi
if [ -n "${1:-}" ]; then
  systemd disable --now atherops-otel-agent.service || true
  rm -rf /usr/lib/atherops-otel-agent /usr/share/doc/atherops-otel-agent
  rm -f /usr/bin/atherops-otel-agent /usr/lib/systemd/system/atherops-otel-agent.service
  systemd daemon-reload
  if [ "$1" = --purge ]; then
    rm -rf /etc/atherops /var/lib/atherops-otel-agent
  else
    echo "removed; kept: /etc/atherops (settings, key), /var/lib/atherops-otel-agent (what was not sent yet)"
  fi
  exit 0
fi
install -d -m 0755 /usr/bin /usr/lib/atherops-otel-agent /usr/lib/systemd/system /usr/share/doc/atherops-otel-agent
install -d -m 0700 /etc/atherops
# The file of a running program cannot be overwritten, but it can be replaced.
for file in "$here"/usr/lib/atherops-otel-agent/*; do
  target=/usr/lib/atherops-otel-agent/$(basename "$file")
  cp "$file" "$target.new" && mv "$target.new" "$target"
done
install -m 0755 "$here/usr/bin/atherops-otel-agent" /usr/bin/atherops-otel-agent
install -m 0644 "$here/usr/lib/systemd/system/atherops-otel-agent.service" /usr/lib/systemd/system/
install -m 0644 "$here"/usr/share/doc/atherops-otel-agent/* /usr/share/doc/atherops-otel-agent/
[ -e /etc/atherops/agent.env ] || install -m 0600 "$here/agent.env" /etc/atherops/agent.env
systemd daemon-reload
systemd try-restart atherops-otel-agent.service
if ! grep -q '^BACKEND_URL=.' /etc/atherops/agent.env; then
  echo "set BACKEND_URL and INSTALL_TOKEN in /etc/atherops/agent.env, then: systemctl enable --now atherops-otel-agent"
fi
