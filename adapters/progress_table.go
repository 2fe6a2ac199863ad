package adapters

import "context"

// ProgressTable is another system's table of progress as that system's operators see it: all of its rows, whoever works them. What
// they write there running relays carry out, see [ProgressStore].
type ProgressTable interface {
	// Rows returns the rows of a topic by publisher; of an empty topic all, by topic and publisher. Fields that only a state store knows are zero.
	Rows(ctx context.Context, topic string) ([]Progress, error)

	// Order writes a status into a row and, with reset, that no attempt has failed. It reports whether there is such a row.
	Order(ctx context.Context, topic, publisher, status string, reset bool) (bool, error)

	// Last returns the largest position in the table of events; 0: it is empty.
	Last(ctx context.Context) (int64, error)

	// Close frees the connections.
	Close()
}
