// Package wake listens for writers on a connection of its own, and lets them know whether
// anybody sleeps: see [Waker] and docs/waking.md.
package wake
