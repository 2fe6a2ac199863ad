package kafka

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// SASL is how to authenticate with the brokers. It prints without the password.
type SASL struct {
	Mechanism string // PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512
	Username  string
	Password  string
}

// String names the mechanism and the user.
func (s SASL) String() string { return s.Mechanism + " as " + s.Username }

// GoString is String: %#v must not print the password either.
func (s SASL) GoString() string { return s.String() }

func (s SASL) mechanism() (sasl.Mechanism, error) {
	if s.Username == "" || s.Password == "" {
		return nil, fmt.Errorf("sasl: %s needs a username and a password", s.Mechanism)
	}
	switch s.Mechanism {
	case "PLAIN":
		return plain.Auth{User: s.Username, Pass: s.Password}.AsMechanism(), nil
	case "SCRAM-SHA-256":
		return scram.Auth{User: s.Username, Pass: s.Password}.AsSha256Mechanism(), nil
	case "SCRAM-SHA-512":
		return scram.Auth{User: s.Username, Pass: s.Password}.AsSha512Mechanism(), nil
	}
	return nil, fmt.Errorf("sasl: mechanism %q is unknown: use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512", s.Mechanism)
}
