//go:build unix && !linux

package server

import "syscall"

// sysProcAttr puts the server into its own session. These systems cannot end a
// server whose starter was killed; the servers' temporary folders tell.
func sysProcAttr(c command) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Credential: c.credential}
}
