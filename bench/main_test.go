package main

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain is also what relays run: for them this binary is the program.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == relayArg {
		os.Exit(relayMain(os.Stdin, os.Stdout, os.Stderr))
	}
	goleak.VerifyTestMain(m)
}
