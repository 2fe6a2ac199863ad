// Package action has the list of what operators can change. The dashboard shows the plan of an [Action] and carries it out; the API takes
// its role and its summary; the command line has a command for it.
package action

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/console"
	"github.com/outriderhq/outrider/admin/operate"
)

// Action is a change that operators may order.
type Action struct {
	Name    string // of the dashboard's action, and of the API's operation
	Role    operate.Role
	Summary string // in the API's document
	Order   string // the API's operation, if it has another name than the action
	Command string // of the command line, such as "instance remove"; empty: there is none

	// Title is that of the page that asks for a confirmation, by the plan. Empty: the action needs none.
	Title string
	Plan  func(context.Context, *console.Console, url.Values) (*Plan, error)

	// Do carries it out by the values of the dashboard's form, and says what it did.
	Do func(context.Context, *console.Console, url.Values) (string, error)
}

// Plan has the changes of an action. Nothing is changed yet.
type Plan struct {
	Verb  string // of the button
	Grave bool   // it cannot be undone

	Count   int
	More    bool   // the count is too low
	Unit    string // what is counted, in the plural; empty: messages
	Counts  []adapters.ParkedCount
	Samples []operate.ParkedMessage
	Facts   [][2]string // about what it will change

	Selected [][2]string // by which names and values
	Undone   []string    // what cannot be undone, and what follows
	Nothing  string      // why there is nothing to do

	Fields  [][2]string // of the form, for Do
	Numbers []Number    // that may be given
	Paced   bool        // it goes in the background, at a rate that may be given
	Back    string      // the page to return to; empty: the one that was left
}

// Number is a number that may be given with an action.
type Number struct {
	Name, Label string
	Most        int
}

// All are the actions.
var All = slices.Concat(ofRoutes, ofMessages, ofOperations, ofRelays)

// Named returns an action; nil: there is none of this name.
func Named(name string) *Action {
	i := slices.IndexFunc(All, func(a *Action) bool { return a.Name == name })
	if i < 0 {
		return nil
	}
	return All[i]
}

// RequestTime is for how long a request may change something; the server's own limit for an answer is longer.
const RequestTime = 20 * time.Second

// use calls f with the operator, for as long as a request may take.
func use[T any](ctx context.Context, c *console.Console, f func(context.Context, *operate.Operator) (T, error)) (out T, err error) {
	ctx, cancel := context.WithTimeout(ctx, RequestTime)
	defer cancel()
	err = c.Use(ctx, func(op *operate.Operator) (err error) {
		out, err = f(ctx, op)
		return err
	})
	return out, err
}

// Thousands writes a number with its thousands apart.
func Thousands(n int) string {
	digits := strconv.Itoa(max(n, -n))
	var b strings.Builder
	if n < 0 {
		b.WriteByte('-')
	}
	for i, c := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(c)
	}
	return b.String()
}

// AtLeast writes a count that may be too low.
func AtLeast(n int, more bool) string {
	if more {
		return "over " + Thousands(n)
	}
	return Thousands(n)
}

// Plural counts things.
func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Thousands(n) + " " + many
}
