//go:build unix && !linux

package server

import "syscall"

// sysProcAttr puts the server into its own session. These systems cannot end a
// server whose starter was killed; their temporary folders remain.
func sysProcAttr(c command) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Credential: c.credential}
}
