package outbox

import (
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/outriderhq/outrider/internal/shorten"

	"github.com/ThreeDotsLabs/watermill/message"
)

// The reasons of deaths.
const (
	DeathExhausted = "exhausted" // its attempts are used up
	DeathPermanent = "permanent" // no attempt could succeed
)

// maxDeathError bounds the text of an error that travels as a header, in bytes:
// receivers refuse requests whose headers are longer than a few KiB.
const maxDeathError = 1024

// Death is the reason and time of a message's death. The copy for a poison
// destination has it under the keys MetaPoison..., in addition to the usual keys for id,
// group, position and lane.
type Death struct {
	Reason   string    `json:"reason"`   // DeathExhausted or DeathPermanent
	Error    string    `json:"error"`    // the last error
	Attempts int       `json:"attempts"` // the last one included; 0: not counted
	Route    string    `json:"route"`    // that gave it up; outside of one, the Watermill handler
	At       time.Time `json:"at"`
}

// DeathBy returns the death for the verdict that ended a message.
func DeathBy(v Verdict, attempts int, route string) Death {
	d := Death{Reason: DeathPermanent, Attempts: attempts, Route: route, At: time.Now().UTC()}
	if v.Exhausted {
		d.Reason = DeathExhausted
	}
	if v.Err != nil {
		d.Error = shorten.Text(v.Err.Error())
	}
	return d
}

// Mark writes the death into the metadata of a copy. The error is made fit for a
// header: one line, at most 1024 bytes.
func (d Death) Mark(m message.Metadata) {
	m[MetaPoisonReason] = d.Reason
	m[MetaPoisonError] = headerText(d.Error)
	m[MetaPoisonRoute] = d.Route
	m[MetaPoisonAt] = d.At.UTC().Format(time.RFC3339Nano)
	if d.Attempts > 0 {
		m[MetaPoisonAttempts] = strconv.Itoa(d.Attempts)
	}
}

// DeathOf reads what [Death.Mark] wrote, for consumers of dead messages; ok is
// false if the message has no death.
func DeathOf(m message.Metadata) (d Death, ok bool) {
	d = Death{Reason: m[MetaPoisonReason], Error: m[MetaPoisonError], Route: m[MetaPoisonRoute]}
	// Values that others wrote wrongly are left empty: the reason marks a dead message.
	d.Attempts, _ = strconv.Atoi(m[MetaPoisonAttempts])
	d.At, _ = time.Parse(time.RFC3339Nano, m[MetaPoisonAt])
	return d, d.Reason != ""
}

// headerText makes one line of valid, bounded text.
func headerText(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
	if len(text) > maxDeathError {
		text = strings.ToValidUTF8(text[:maxDeathError], "")
	}
	return strings.TrimSpace(text)
}
