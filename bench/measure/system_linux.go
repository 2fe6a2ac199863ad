package measure

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Pin binds all threads of this process to the processors. Threads and
// processes that they start later inherit that.
func Pin(cpus []int) error {
	if len(cpus) == 0 {
		return nil
	}
	var set unix.CPUSet
	for _, c := range cpus {
		set.Set(c)
	}
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, t := range threads {
		id, err := strconv.Atoi(t.Name())
		if err != nil {
			continue
		}
		if err := unix.SchedSetaffinity(id, &set); err != nil {
			return fmt.Errorf("-cpus %v: %w: give numbers of processors that this machine has", cpus, err)
		}
	}
	return nil
}

// PeakMemory returns the most memory that a process had resident, in bytes. It is
// not ru_maxrss, in which Linux also counts what the parent had resident when it
// made the process.
func PeakMemory(pid int) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	kib, _ := strconv.ParseInt(strings.TrimSuffix(field(status, "VmHWM"), " kB"), 10, 64)
	return kib << 10
}

// cpuTick is the unit of times in /proc: 100 a second on every processor that Go
// runs on.
const cpuTick = 10 * time.Millisecond

// CPUTime returns the user and system time that a process has used.
func CPUTime(pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// Behind the name, which may hold anything but ends with the last bracket, are
	// the fields from the third one on; the times are the 14th and 15th.
	values := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(values) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(values[11], 10, 64)
	system, _ := strconv.ParseInt(values[12], 10, 64)
	return time.Duration(user+system) * cpuTick
}

// kernel names the operating system.
func kernel() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "Linux"
	}
	return "Linux " + unix.ByteSliceToString(u.Release[:])
}

// processor is the model of the processor.
func processor() string {
	info, _ := os.ReadFile("/proc/cpuinfo") // without it the model is unknown
	if model := field(info, "model name"); model != "" {
		return model
	}
	return "unknown processor"
}

// processors is how many the machine has, whoever may use them.
func processors() int {
	info, _ := os.ReadFile("/proc/cpuinfo") // without it their number is unknown
	return bytes.Count(info, []byte("processor\t:"))
}

// memoryBytes is the machine's memory.
func memoryBytes() int64 {
	info, _ := os.ReadFile("/proc/meminfo") // without it the size is unknown
	kib, _ := strconv.ParseInt(strings.TrimSuffix(field(info, "MemTotal"), " kB"), 10, 64)
	return kib << 10
}

// load is how many processes wanted to run in the last minute, on average.
func load() string {
	text, _ := os.ReadFile("/proc/loadavg") // without it the load is unknown
	first, _, _ := strings.Cut(string(text), " ")
	return first
}

// field returns the value of the first line "name: value".
func field(text []byte, name string) string {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		if k, v, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(k) == name {
			return strings.TrimSpace(v)
		}
	}
	return ""
}
