// Package signal has the signals and timers that the parts of a router wait for.
package signal
