#!/bin/sh
set -e
# dpkg says "upgrade", rpm says 1, when a newer version takes this one's place.
case "$1" in
upgrade | 1) exit 0 ;;
esac
if [ -d /run/systemd/system ]; then systemctl disable --now atherops-otel-agent.service; fi
