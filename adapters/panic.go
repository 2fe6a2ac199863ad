package adapters

import (
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
)

// PanicError is the error of an attempt in which code that was supplied panicked.
// It carries no kind, so it is transient, and it does not unwrap to the value of
// the panic, whatever that is. Its text is short, because it is kept with the
// message; the stack is for the log.
type PanicError struct {
	Who   string // what panicked: "the destination"
	Value any    // what it panicked with
	Place string // file and line, the same for each time that it happens there
	Stack string
}

// Error says what panicked, where and with what.
func (e *PanicError) Error() string {
	return fmt.Sprintf("%s panicked at %s: %v", e.Who, e.Place, e.Value)
}

// Recovered returns the error for what recover returned. Call it from the deferred
// function that recovers: the stack is still that of the panic then.
func Recovered(who string, value any) error {
	return &PanicError{Who: who, Value: value, Place: panicPlace(), Stack: string(debug.Stack())}
}

// panicPlace is where the latest panic began: below the frames of the runtime,
// which are several when the runtime itself panicked.
func panicPlace() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	for panicking := false; ; {
		f, more := frames.Next()
		switch ours := !strings.HasPrefix(f.Function, "runtime."); {
		case f.Function == "runtime.gopanic":
			panicking = true
		case panicking && ours:
			return filepath.Base(f.File) + ":" + strconv.Itoa(f.Line)
		}
		if !more {
			return "an unknown place"
		}
	}
}
