// Package wake listens for publishers' notifications on a connection of its own, and shows
// publishers whether a reader sleeps: see [Waker] and docs/waking.md.
package wake
