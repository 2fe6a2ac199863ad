package doctor

import (
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/config"
)

// The garbage collector's share: what the process needs in addition to the budget for
// messages, what it needs for the lanes of each route (68 KiB in use, measured with a thousand), and how much of the budget again is left for garbage.
const (
	memoryBase  = 40 << 20
	memoryRoute = 80 << 10
	memoryShare = 4
	lazyPercent = 400
)

// TuneMemory makes the garbage collector run rarely while there is room and
// work harder before the process grows beyond what the memory budget explains:
// with the default budget of 64 MiB and few routes, resident memory stays below about 150 MiB.
// It changes settings of the whole process, so only programs that are a relay
// and nothing else should call it; `outrider run` does. Where GOMEMLIMIT or GOGC
// is set in the environment it does nothing.
func TuneMemory(cfg *config.Config) {
	if os.Getenv("GOMEMLIMIT") != "" || os.Getenv("GOGC") != "" {
		return
	}
	debug.SetMemoryLimit(memoryNeeds(int64(cfg.Memory), len(cfg.Routes)))
	debug.SetGCPercent(lazyPercent)
}

// memoryNeeds is the memory of the whole process that follows from the budget for messages and the number of routes.
func memoryNeeds(budget int64, routes int) int64 {
	return memoryBase + int64(routes)*memoryRoute + budget + budget/memoryShare
}

// memoryLimit is the memory that the process may use, by GOMEMLIMIT or its control group;
// 0: no limit is known.
func memoryLimit() int64 {
	limit := debug.SetMemoryLimit(-1) // asks only
	if limit == 1<<63-1 {
		limit = 0
	}
	text, err := os.ReadFile("/sys/fs/cgroup/memory.max")
	if err != nil {
		return limit
	}
	group, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || limit > 0 && limit < group { // "max"
		return limit
	}
	return group
}

// memoryFinding compares [memoryNeeds] with the limit of the process.
func memoryFinding(budget int64, routes int, limit int64) adapters.Finding {
	f := adapters.Finding{Subject: "memory", Text: "budget for messages " + humanize.IBytes(uint64(max(budget, 0)))}
	if limit <= 0 {
		f.Text += ", no limit of the process is known"
		return f
	}
	f.Text += ", limit of the process " + humanize.IBytes(uint64(limit))
	if needs := memoryNeeds(budget, routes); needs > limit {
		f.Level = adapters.LevelWarning
		f.Fix = fmt.Sprintf("raise the limit to at least %s, or lower `memory`", humanize.IBytes(uint64(needs)))
	}
	return f
}
