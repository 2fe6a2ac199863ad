package operate

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"
)

// What keeps the rows of one state store from being followed is logged once, although another store's are.
func TestOneStoreOfProgressFails(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	j := &ProgressJob{log: slog.New(slog.NewTextHandler(&log, nil)), failing: map[string]string{}}
	for range 3 {
		j.report("store 0", "", errors.New("it is down"))
		j.report("store 1", "", nil)
	}
	if n := bytes.Count(log.Bytes(), []byte("it is down")); n != 1 {
		t.Errorf("logged %d times, want once:\n%s", n, log.String())
	}
}
