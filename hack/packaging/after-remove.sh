#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
# dpkg passes its action, rpm the number of remaining versions: 0 after a removal. Only a purge deletes the key and unsent data.
case "$1" in
purge) rm -rf /etc/atherops /var/lib/atherops-otel-agent ;;
remove | 0) echo "atherops-otel-agent: kept: /etc/atherops (settings, key), /var/lib/atherops-otel-agent (what was not sent yet)" ;;
esac
