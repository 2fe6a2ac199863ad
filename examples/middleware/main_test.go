package main

import (
	"bytes"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEachRouteHasItsOwnMiddleware(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	partners, archive, _ := strings.Cut(out.String(), "archive got ")
	for _, want := range []string{`"data":{"order":1}`, `correlation_id`, `event-1`} {
		if !strings.Contains(partners, want) {
			t.Errorf("partners lack %s:\n%s", want, partners)
		}
	}
	if strings.Contains(partners, "@") {
		t.Errorf("partners see the address:\n%s", partners)
	}
	if !strings.Contains(archive, `"email":"heron@example.com"`) || strings.Contains(archive, "correlation_id") {
		t.Errorf("the archive's message was changed:\n%s", archive)
	}
}
