// Package ownership decides which lanes are ours: leases, shares among instances,
// hand-over, pauses and leaders' locks. Its [Manager] starts and stops sessions.
package ownership
