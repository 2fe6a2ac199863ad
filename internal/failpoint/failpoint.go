// Package failpoint lets tests kill the process at a named step between reading
// a message and settling it. It is in every build, so that the tested program is
// the released one.
//
// It does nothing unless the environment variable OUTRIDER_FAILPOINT names a
// step when the process starts: then the process kills itself with SIGKILL at that
// step, or, with NAME:COUNT, when it is there for the COUNTth time.
// It is not for injecting errors, and no setting of the configuration reaches it.
package failpoint

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// Env is the environment variable that names the step, as NAME or NAME:COUNT.
const Env = "OUTRIDER_FAILPOINT"

// Point is a step at which the process can be killed.
type Point string

// The steps, in the order in which a message passes them.
const (
	Acquired     Point = "acquired"      // lanes are taken, nothing of them is worked yet
	Fetched      Point = "fetched"       // rows are read, or claimed from a queue, and in their lanes
	BeforeSend   Point = "before-send"   // a batch is about to be given to the destination
	AfterSend    Point = "after-send"    // its outcome is known, and not reported yet
	Parking      Point = "parking"       // a message is taken out of its lane, in memory
	BeforeSettle Point = "before-settle" // verdicts are gathered and about to be written
	InSettle     Point = "in-settle"     // cursors are written with parked rows, and not committed
	AfterSettle  Point = "after-settle"  // verdicts are durable, in memory nothing knows of it
	Delivered    Point = "delivered"     // a delivery is written in a transaction, and not that it took place
	InDelivery   Point = "in-delivery"   // that is written too, and not committed
	Committed    Point = "committed"     // both are committed, in memory nothing knows of it
	Unparking    Point = "unparking"     // parked rows are read back, and not yet in their lane
	Release      Point = "release"       // everything is settled at the end, the lanes are not released yet
	Released     Point = "released"      // the lanes are given up, the process has not ended
)

// Points are the steps of messages.
var Points = []Point{
	Acquired, Fetched, BeforeSend, AfterSend, Parking, BeforeSettle, InSettle, AfterSettle,
	Delivered, InDelivery, Committed, Unparking, Release, Released,
}

// InTransactions are further steps of deliveries that commit in the transaction that settles them.
var InTransactions = []Point{Delivered, InDelivery, Committed}

// Hot is the step between the commit of a message that is to be delivered from memory and its entry into the hot queue. Only programs that
// publish have it.
const Hot Point = "hot"

// The steps of an operation.
const (
	OperationStep    Point = "operation-step"    // a step is committed with its progress
	OperationPending Point = "operation-pending" // rows of a queue's table are written down as about to be changed
	OperationChanged Point = "operation-changed" // they are changed, and not counted
)

// operationPoints are those of operations.
var operationPoints = []Point{OperationStep, OperationPending, OperationChanged}

// failpoint is a step, and the number of passes until the kill.
type failpoint struct {
	at   Point
	left atomic.Int64
}

// armed is the step that the environment names, nil without one; problem is the
// error of an invalid one. Both are set once, so that a step costs one comparison.
var armed, problem = parse(os.Getenv(Env))

// parse reads NAME or NAME:COUNT.
func parse(text string) (*failpoint, error) {
	if text == "" {
		return nil, nil
	}
	name, count, counted := strings.Cut(text, ":")
	f := &failpoint{at: Point(name)}
	f.left.Store(1)
	if all := slices.Concat(Points, []Point{Hot}, operationPoints); !slices.Contains(all, f.at) {
		return nil, fmt.Errorf("%s: %q is no step: use one of %v, or unset it", Env, name, all)
	}
	if counted {
		n, err := strconv.ParseInt(count, 10, 64)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%s: %q is no count: use a number from 1 on, as in %s:3", Env, count, name)
		}
		f.left.Store(n)
	}
	return f, nil
}

// Armed returns the step at which this process is to be killed, empty for
// none, and an error if the environment variable is invalid.
func Armed() (Point, error) {
	if armed == nil {
		return "", problem
	}
	return armed.at, nil
}

// Hit is called at a step. It does not return if the process is to be killed there.
func Hit(p Point) {
	if armed != nil && armed.at == p {
		armed.hit()
	}
}

// hit counts down and kills the process at 0.
func (f *failpoint) hit() {
	if f.left.Add(-1) != 0 {
		return
	}
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		os.Exit(137) //nolint:revive // what cannot be killed must not continue either
	}
	select {} // the signal is on its way: nothing may be done until it comes
}
