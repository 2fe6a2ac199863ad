package server

import "syscall"

// sysProcAttr puts the server into its own session and has the kernel end it
// when we die first.
func sysProcAttr(c command) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Credential: c.credential, Pdeathsig: c.orphanSignal}
}
