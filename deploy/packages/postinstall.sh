#!/bin/sh
# deb: configure [former version]; rpm: 1 at the first installation, 2 or more at an upgrade.
set -e

# systemctl where systemd runs, and not for a system that is installed into another folder.
systemd() {
	if [ -z "${DPKG_ROOT:-}" ] && [ -d /run/systemd/system ]; then
		systemctl "$@" || true
	fi
}

upgrade=no
case "$1" in
configure) [ -z "${2:-}" ] || upgrade=yes ;;
[0-9]*) [ "$1" -lt 2 ] || upgrade=yes ;;
*) exit 0 ;;
esac

systemd daemon-reload
if [ "$upgrade" = yes ]; then
	systemd try-restart outrider.service # it drains, and continues where it stopped
	exit 0
fi
cat <<'TEXT'
Outrider is installed and not started. Next:
  1. edit /etc/outrider/outrider.yaml, and put secrets into /etc/outrider/outrider.env
  2. check both, and what they name:
       set -a; . /etc/outrider/outrider.env; set +a
       outrider init --config /etc/outrider/outrider.yaml
       outrider doctor --config /etc/outrider/outrider.yaml
  3. systemctl enable --now outrider
TEXT
