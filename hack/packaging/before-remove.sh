#!/bin/sh
set -e
# If a newer version replaces this one, dpkg passes "upgrade" and rpm 1.
case "$1" in
upgrade | 1) exit 0 ;;
esac
if [ -d /run/systemd/system ]; then systemctl disable --now atherops-otel-agent.service; fi
