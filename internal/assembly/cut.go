package assembly

import (
	"database/sql/driver"
	"errors"
	"io"
	"slices"
	"syscall"

	"github.com/outriderhq/outrider/adapters/mongodb"
	"github.com/outriderhq/outrider/adapters/mysql"
)

// cuts are what is left of a connection that was cut.
var cuts = []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE, driver.ErrBadConn}

// ending are the answers of a PostgreSQL that ends, or has just begun.
var ending = []string{"57P01", "57P02", "57P03", "08006"}

// WasCut reports whether an error is about a connection that was cut, as by a restart of the server or by the network: the
// same may succeed in a moment. A refusal, such as of a password, is none, nor is an address where nothing listens.
func WasCut(err error) bool {
	var state interface{ SQLState() string } // of PostgreSQL
	if errors.As(err, &state) {
		return slices.Contains(ending, state.SQLState())
	}
	return slices.ContainsFunc(cuts, func(cut error) bool { return errors.Is(err, cut) }) || mysql.ConnectionLost(err) || mongodb.ConnectionLost(err)
}
