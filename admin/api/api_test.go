package api

import (
	"bytes"
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write docs/openapi.json anew")

// The document in docs is the one that the program serves.
func TestTheDocumentIsCurrent(t *testing.T) {
	t.Parallel()
	got, err := Document()
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	const path = "../../docs/openapi.json"
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil { //nolint:gosec // a page for everybody
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("docs/openapi.json is not current (%v): run go test ./admin/api -update", err)
	}
}
