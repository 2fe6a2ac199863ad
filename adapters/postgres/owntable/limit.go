package owntable

import (
	"errors"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
)

// limits is how much the own layout's statements read of a row.
type limits struct {
	payload int64 // bytes
	names   bool  // names are cut as well
}

// body is the largest message of the server's that such a statement may return: a
// row whose names are short, with room to spare.
func (l limits) body() int {
	return int(l.payload) + 2*adapters.MaxRowMetadataBytes + 1<<20
}

// column returns the expression for a column of the own layout.
func (l limits) column(c column) string {
	name := "o." + c.name
	switch c.name {
	case "payload", "payload_bytes":
		return wire.Within(name, c.oid, l.payload, "NULL") + " AS " + c.name
	case "tags", "headers":
		return wire.MetadataWithin(name, c.oid) + " AS " + c.name
	}
	if l.names && c.oid == pgtype.TextOID {
		return wire.CutName(name, c.oid) + " AS " + c.name
	}
	return name
}

// stored returns the expression for how much is stored of a payload that was left out.
func (l limits) stored() string {
	return "coalesce(" + wire.Beyond("o.payload", pgtype.JSONOID, l.payload) + ", " +
		wire.Beyond("o.payload_bytes", pgtype.ByteaOID, l.payload) + ") AS stored"
}

// exceeded reports whether the connection was given up because a row was larger than
// it takes: then some name is, and names are to be cut.
func exceeded(err error) bool {
	_, ok := errors.AsType[*pgproto3.ExceededMaxBodyLenErr](err)
	return ok
}

// errLongNames ends such a read.
var errLongNames = errors.New("a row has an id, a type, a group or another name of more than a mebibyte; " +
	"from now on names are cut as they are read, and the row will be dead")
