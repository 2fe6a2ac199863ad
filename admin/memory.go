package admin

import (
	"os"
	"runtime/debug"

	"github.com/outriderhq/outrider/config"
)

// The garbage collector's share: what the process needs beside the budget for
// messages, and how much of the budget again is left for garbage.
const (
	memoryBase  = 40 << 20
	memoryShare = 4
	lazyPercent = 400
)

// TuneMemory makes the garbage collector run rarely while there is room and
// work harder before the process grows beyond what the memory budget explains:
// with the default budget of 64 MiB, resident memory stays below about 150 MiB.
// It changes settings of the whole process, so only programs that are a relay
// and nothing else should call it; `outrider run` does. Where GOMEMLIMIT or GOGC
// is set in the environment it does nothing.
func TuneMemory(cfg *config.Config) {
	if os.Getenv("GOMEMLIMIT") != "" || os.Getenv("GOGC") != "" {
		return
	}
	budget := int64(cfg.Memory)
	debug.SetMemoryLimit(memoryBase + budget + budget/memoryShare)
	debug.SetGCPercent(lazyPercent)
}
