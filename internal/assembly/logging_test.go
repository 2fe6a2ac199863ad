package assembly

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

func TestTextsOfTheLogAreCut(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	long := strings.Repeat("x", 10_000)
	log := slog.New(cutTexts{slog.NewJSONHandler(&out, nil)})
	log.With("tenant", long).Error("failed", "id", long, "error", errors.New(long), "short", "é", "n", 1, "stack", long)
	line := out.String()
	if n := strings.Count(line, "... (cut)"); n != 3 || len(line) > 3*1024+10_000+500 || !strings.Contains(line, `"short":"é","n":1`) {
		t.Errorf("%d texts were cut, the line has %d bytes", n, len(line))
	}
}
