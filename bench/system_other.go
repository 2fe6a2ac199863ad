//go:build !linux

package main

import (
	"errors"
	"runtime"
	"time"
)

// The values of system_linux.go are not known here: figures are shown
// without them.

func pin(cpus []int) error {
	if len(cpus) == 0 {
		return nil
	}
	return errors.New("-cpus works on Linux only")
}

func peakMemory(int) int64      { return 0 }
func cpuTime(int) time.Duration { return 0 }
func kernel() string            { return runtime.GOOS }
func processor() string         { return runtime.GOARCH }
func processors() int           { return runtime.NumCPU() }
func memoryBytes() int64        { return 0 }
func load() string              { return "" }
