#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  # Starts the new version after an upgrade. After the first installation the service is not enabled, because it has no settings yet.
  systemctl try-restart atherops-otel-agent.service
fi
if [ -e /etc/systemd/system/atherops-otel-agent.service ]; then
  echo "atherops-otel-agent: /etc/systemd/system/atherops-otel-agent.service takes the place of the package's unit: remove it, then: systemctl daemon-reload"
fi
if ! grep -q '^BACKEND_URL=.' /etc/atherops/agent.env; then
  echo "atherops-otel-agent: set BACKEND_URL and INSTALL_TOKEN in /etc/atherops/agent.env, then: systemctl enable --now atherops-otel-agent"
fi
