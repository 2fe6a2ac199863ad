package assembly

import (
	"errors"
	"io"
	"slices"
	"syscall"

	"github.com/outriderhq/outrider/adapters/mongodb"
	"github.com/outriderhq/outrider/adapters/mysql"
	"github.com/outriderhq/outrider/adapters/postgres"
)

// cuts are what is left of a connection that was cut.
var cuts = []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE}

// WasCut reports whether an error is about a connection that was cut, as by a restart of the server or by the network: the
// same may succeed in a moment. A refusal, such as of a password, is none, nor is an address where nothing listens.
func WasCut(err error) bool {
	return slices.ContainsFunc(cuts, func(cut error) bool { return errors.Is(err, cut) }) ||
		postgres.ConnectionLost(err) || mysql.ConnectionLost(err) || mongodb.ConnectionLost(err)
}
