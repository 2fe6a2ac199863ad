package wire

import (
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outriderhq/outrider/adapters"
)

// A row may be as large as 1 GB. So a statement that reads rows asks for the size of
// what can be large before it returns it, and leaves out what is beyond the limit:
//
//   - The size of a text or bytea is known without reading it (octet_length).
//   - json and jsonb have to be read for that, but not to know how much is stored of
//     them. The stored size of a value is at least a 256th of it, so one that is
//     stored in a 256th of the limit fits. Only what lies between is read to be measured.
//   - A payload that is left out is null, with its stored size in a column of its
//     own; tags and headers become [tooLong].
//   - Names (id, type, group and so on) are cut. In the own layout, where asking for
//     them would cost more than everything else, that waits for a row that exceeds
//     what the connection takes (see limits in package postgres).

// compression is more than the ratio by which PostgreSQL can compress a value: 255
// with LZ4, 87 with its own method.
const compression = 256

// TooLong stands for tags and headers that are larger than
// [adapters.MaxRowMetadataBytes]. It is JSON, and no object.
const TooLong = `"outrider: too large to be read"`

// Within returns the expression of a column, or of what stands for it where that is
// larger than limit. An empty type is text.
func Within(column string, oid uint32, limit int64, instead string) string {
	most := strconv.FormatInt(limit, 10)
	if measured(oid) {
		return "CASE WHEN octet_length(" + column + ") > " + most + " THEN " + instead + " ELSE " + column + " END"
	}
	return "CASE WHEN pg_column_size(" + column + ") > " + strconv.FormatInt(limit/compression, 10) +
		" THEN CASE WHEN pg_column_size(" + column + ") > " + most + " THEN " + instead +
		" WHEN octet_length(" + column + "::text) > " + most + " THEN " + instead + " ELSE " + column + " END ELSE " + column + " END"
}

// Beyond returns an expression that says how much is stored of a value, if that may
// be larger than limit.
func Beyond(column string, oid uint32, limit int64) string {
	size := "pg_column_size"
	if measured(oid) {
		size = "octet_length"
	} else {
		limit /= compression
	}
	return "CASE WHEN " + size + "(" + column + ") > " + strconv.FormatInt(limit, 10) + " THEN " + size + "(" + column + ")::bigint END"
}

// measured reports whether the size of a type's values is known without reading them.
func measured(oid uint32) bool {
	return oid == pgtype.TextOID || oid == pgtype.VarcharOID || oid == pgtype.ByteaOID
}

// CutName returns the expression of a name as text: one that is too long is cut, but not
// to what is allowed, so that it is seen to be.
func CutName(column string, oid uint32) string {
	const most = adapters.MaxRowNameBytes
	switch oid {
	case pgtype.UUIDOID, pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID:
		return column + "::text"
	case pgtype.TextOID, pgtype.VarcharOID:
		return fmt.Sprintf("CASE WHEN octet_length(%[1]s) > %[2]d THEN left(%[1]s, %[3]d) ELSE %[1]s END::text", column, most, most+1)
	}
	return fmt.Sprintf("left(%s::text, %d)", column, most+1)
}

// TagsWithin returns the expression of a column with an array of tags, as a JSON array.
func TagsWithin(column string) string {
	most := strconv.Itoa(adapters.MaxRowMetadataBytes)
	small := strconv.Itoa(adapters.MaxRowMetadataBytes / compression)
	return "(CASE WHEN pg_column_size(" + column + ") > " + small + " THEN CASE WHEN octet_length(" + column + "::text) > " + most +
		" THEN '" + TooLong + "' ELSE array_to_json(" + column + ")::text END ELSE array_to_json(" + column + ")::text END)"
}

// MetadataWithin returns the expression of a column with tags or headers.
func MetadataWithin(column string, oid uint32) string {
	return Within(column, oid, adapters.MaxRowMetadataBytes, "'"+TooLong+"'")
}
