package queuetable

// A timestamp may be infinite, or of a year that neither JSON nor Go's clients can carry, and nothing can be subtracted from it. One without a
// time zone says local time: in the hour before clocks go back it is compared as such, or it would be taken for one of the hour after.

const localType = "timestamp without time zone"

// nowOf is the present time for a comparison with a column of a type.
func nowOf(typ string) string {
	if typ == localType {
		return "localtimestamp"
	}
	return "now()"
}

// until is how many seconds are left until a time of a type.
func until(time, typ string) string {
	return "(extract(epoch FROM " + time + ")::float8 - extract(epoch FROM " + nowOf(typ) + ")::float8)"
}

// dueAt is when a row is due that waits for so many seconds, by the server's clock, which decides about it.
const dueAt = "now() + s.wait * interval '1 second'"

// dueValue is what a settle writes for when a row is due. A pause that ends in the hour after is not to look over in this one.
func (q *queueSQL) dueValue() string {
	if q.types.due != localType {
		return dueAt
	}
	return "greatest((" + dueAt + ")::timestamp, localtimestamp + s.wait * interval '1 second')"
}
