package router

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/outriderhq/outrider/router/internal/lane"
)

// ErrCutOff is what [Router.Run] returns, by errors.Is, when
// [Config.DrainTimeout] was over before everything in flight had ended: what was
// left was cancelled, and whether it arrived is not known. Nothing is lost: it
// stays unsettled and may be delivered again. All that was concluded is written
// down, unless the error says otherwise as well.
var ErrCutOff = errors.New("the drain was cut off")

// mostRoutesNamed bounds the routes that an error names.
const mostRoutesNamed = 5

// cutOff returns an [ErrCutOff] that says what was left of the stopped sessions
// when the limit was over; nil when nothing was.
func cutOff(sessions []*lane.Session, limit time.Duration) error {
	left := lane.UnknownBy(sessions)
	if len(left) == 0 {
		return nil
	}
	n := 0
	var routes []string
	for i, l := range left {
		n += l.Messages
		if i < mostRoutesNamed {
			routes = append(routes, fmt.Sprintf("route %s (%d, in %s)", l.Route, l.Messages, strings.Join(l.Lanes, ", ")))
		}
	}
	if more := len(left) - len(routes); more > 0 {
		routes = append(routes, fmt.Sprintf("%d more routes", more))
	}
	return fmt.Errorf("%w after %v (drain_timeout) with %s in flight: %s; whether they arrived is not known, and they may be delivered again; "+
		"raise drain_timeout above the timeout of these routes, or find out what takes their receivers or middleware so long",
		ErrCutOff, limit, messages(n), strings.Join(routes, ", "))
}

func messages(n int) string {
	if n == 1 {
		return "1 message"
	}
	return fmt.Sprintf("%d messages", n)
}
