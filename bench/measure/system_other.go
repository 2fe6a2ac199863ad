//go:build !linux

package measure

import (
	"errors"
	"runtime"
	"time"
)

// The values of system_linux.go are not known here: figures are shown
// without them.

// Pin works on Linux only.
func Pin(cpus []int) error {
	if len(cpus) == 0 {
		return nil
	}
	return errors.New("-cpus works on Linux only")
}

// PeakMemory is not known.
func PeakMemory(int) int64 { return 0 }

// CPUTime is not known.
func CPUTime(int) time.Duration { return 0 }

func kernel() string     { return runtime.GOOS }
func processor() string  { return runtime.GOARCH }
func processors() int    { return runtime.NumCPU() }
func memoryBytes() int64 { return 0 }
func load() string       { return "" }
