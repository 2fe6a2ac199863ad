package mdb

import (
	"errors"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/outriderhq/outrider/adapters"
)

// Plainly shortens what the driver says when there is no server, which is a description of its whole topology.
func Plainly(err error) error {
	if _, ok := errors.AsType[*ConnectFailure](err); ok || err == nil {
		return err
	}
	text := err.Error()
	at := strings.Index(text, ", current topology: ")
	if at < 0 {
		return err
	}
	if last := strings.LastIndex(text, "Last error: "); last > at {
		cause, _, _ := strings.Cut(text[last+len("Last error: "):], " }")
		return &plain{text[:at] + ": " + cause, err}
	}
	return &plain{text[:at], err}
}

// The server's codes of a document that it does not take: a validator or a unique index refuses it.
const (
	validationFailure = 121
	duplicateKey      = 11000
)

// Refused marks an error of a write by which the collection refuses a document.
func Refused(err error) error {
	if e, ok := errors.AsType[mongo.ServerError](err); ok && (e.HasErrorCode(validationFailure) || e.HasErrorCode(duplicateKey)) {
		return fmt.Errorf("%w: %w", adapters.ErrRefused, err)
	}
	return err
}

// Lost reports whether an error of this package is about a connection that ended early: the one that was used, or another, for which the
// driver has given up all connections to that server.
func Lost(err error) bool {
	_, cleared := errors.AsType[poolCleared](err)
	return cleared || mongo.IsNetworkError(err) && !mongo.IsTimeout(err)
}

// poolCleared is the driver's error of an operation whose connection it gave up before the operation began.
type poolCleared interface {
	error
	Retryable() bool
}

// plain is an error in fewer words.
type plain struct {
	text string
	err  error
}

func (p *plain) Error() string { return p.text }
func (p *plain) Unwrap() error { return p.err }

// ConnectFailure is a server that could not be asked what it is.
type ConnectFailure struct {
	Text, Fix string
	err       error // what the driver said
}

// Error says what happened and, behind a semicolon, what to do.
func (e *ConnectFailure) Error() string { return e.Text + "; " + e.Fix }
func (e *ConnectFailure) Unwrap() error { return e.err }

// connectFixes say what to do, by the text of the driver's error, which has no types for it. The first that is found counts.
var connectFixes = []struct{ says, fix string }{
	{"certificate is valid for", nameFix}, {"certificate is not valid for any names", nameFix}, {"doesn't contain any IP SANs", nameFix},
	{"x509: ", "the server's certificate is checked: name the authority that signed it with `tls: {ca_file: ...}` beside the url in the configuration"},
	{"does not look like a TLS handshake", "the server has no TLS: turn it on there, or accept an unencrypted connection with `tls: {enabled: false}` beside the url"},
	{"EOF", "the server ends the connection: if it wants TLS, turn it on with `tls: {enabled: true}` beside the url; otherwise see its log"},
	{"auth error", "correct user, password and authSource of the url"},
	{"connection refused", "start the server, or correct host and port of the url"},
	{"no such host", "correct the host of the url, or see whether this machine's DNS knows it"},
	{"deadline exceeded", "check host and port of the url, whether the server runs, and firewalls in between"},
	{"i/o timeout", "check host and port of the url, whether the server runs, and firewalls in between"},
}

const nameFix = "the certificate is another host's: correct the host of the url, or name the one in the certificate with `tls: {server_name: ...}` beside it"

// notConnected says why the server cannot be asked.
func notConnected(err error) error {
	short := Plainly(err).Error()
	e := &ConnectFailure{"cannot connect to MongoDB: " + short, "correct the url, start the server, or let this host connect", err}
	if _, ok := errors.AsType[mongo.CommandError](err); ok { // it has answered
		e.Fix = "see the server's log, and what the user of the url may do"
	}
	for _, f := range connectFixes {
		if strings.Contains(short, f.says) {
			e.Fix = f.fix
			break
		}
	}
	return e
}
