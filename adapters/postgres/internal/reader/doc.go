// Package reader has what reading by snapshot cursors needs in every layout: the cursor
// rule ([PlanRead], [Finish]), snapshots and what they cover ([Cover]), the connection
// that reads ([Conn]), and the checks that keep a cursor out of a database that it does
// not belong to ([Reader]). The statements belong to the layouts.
package reader
