// Command outrider runs the relay and looks after its state. Each command is a
// thin layer over package outrider, which does the work: what a command can do,
// a Go program can do as well.
//
// Exit codes: 0 done; 1 failed, or stopped without finishing what was in flight; 2
// called wrongly, or a configuration with errors.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(execute(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
