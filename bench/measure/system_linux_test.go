package measure

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Not parallel: it binds the whole test for a moment.
func TestPinBindsEveryThread(t *testing.T) {
	var before unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		t.Fatal(err)
	}
	var all []int
	for c := range len(before) * 64 {
		if before.IsSet(c) {
			all = append(all, c)
		}
	}
	t.Cleanup(func() {
		if err := Pin(all); err != nil {
			t.Error(err)
		}
	})
	if err := Pin(all[:1]); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		var now unix.CPUSet
		if err := unix.SchedGetaffinity(0, &now); err != nil || now.Count() != 1 || !now.IsSet(all[0]) {
			t.Fatalf("a thread may run on %d processors (%v)", now.Count(), err)
		}
	}
	if err := Pin([]int{1000}); err == nil {
		t.Error("a processor that there is not was accepted")
	}
}

func TestPeakMemoryIsThisProcess(t *testing.T) {
	t.Parallel()
	if peak := PeakMemory(os.Getpid()); peak < 1<<20 || peak > 64<<30 {
		t.Errorf("%d bytes", peak)
	}
}
