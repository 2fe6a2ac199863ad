// Command flaky runs tests repeatedly on a busy machine, and lists which failed how
// often:
//
//	go run ./internal/testenv/cmd/flaky -n 20 -- go test -json -count=1 -race ./...
//
// The command must write the events of `go test -json`. At the same time loops
// keep the processors busy; they end with this program. The exit status is 1 when
// anything failed.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	flags := flag.NewFlagSet("flaky", flag.ContinueOnError)
	n := flags.Int("n", 20, "how often to run the command")
	busy := flags.Int("busy", 4, "how many loops use a processor beside it")
	if err := flags.Parse(args); err != nil || flags.NArg() == 0 || *n < 1 || *busy < 0 {
		fmt.Fprintln(os.Stderr, "usage: flaky [-n runs] [-busy loops] -- go test -json [argument ...]")
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	keepBusy(*busy)
	all := newFailures()
	for i := 1; i <= *n && ctx.Err() == nil; i++ {
		began := time.Now()
		failed, err := runOnce(ctx, flags.Args())
		if err != nil {
			fmt.Fprintln(os.Stderr, "flaky:", err)
			return 1
		}
		all.add(failed)
		fmt.Printf("run %d of %d: %d failed, after %s\n", i, *n, len(failed), time.Since(began).Round(time.Second))
	}
	all.print(os.Stdout)
	if len(all.count) > 0 || ctx.Err() != nil {
		return 1
	}
	return 0
}

// keepBusy uses processors until the process ends.
func keepBusy(loops int) {
	runtime.GOMAXPROCS(loops + 2)
	for range loops {
		go func() {
			runtime.LockOSThread()
			for i := uint64(0); ; i++ {
				if i == 0 {
					runtime.Gosched()
				}
			}
		}()
	}
}

// runOnce runs the command and returns what failed.
func runOnce(ctx context.Context, args []string) (map[string]string, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	failed := read(out)
	if err := cmd.Wait(); err != nil && len(failed) == 0 && ctx.Err() == nil {
		failed["(the command)"] = err.Error() + "\n"
	}
	return failed, nil
}
