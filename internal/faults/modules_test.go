package faults_test

import (
	"bytes"
	"debug/buildinfo"
	"os"
	"slices"
	"testing"
)

// TestTheProgramHasWatermillsOwnParts reads the built program: its modules, and names of functions of the parts that
// configurations choose. A module that only tests use is in neither.
func TestTheProgramHasWatermillsOwnParts(t *testing.T) {
	t.Parallel()
	path := program(t)
	info, err := buildinfo.ReadFile(path)
	must(t, err)
	var modules []string
	for _, m := range info.Deps {
		modules = append(modules, m.Path)
	}
	text, err := os.ReadFile(path)
	must(t, err)
	const watermill = "github.com/ThreeDotsLabs/watermill"
	for _, want := range []struct{ module, function string }{
		{watermill, watermill + "/message.(*Router).Run"},
		{watermill + "-sql/v3", watermill + "-sql/v3/pkg/sql.(*Subscriber).Subscribe"},
		{watermill + "-kafka/v3", watermill + "-kafka/v3/pkg/kafka.(*Publisher).Publish"},
		{watermill + "-http/v2", watermill + "-http/v2/pkg/http.(*Publisher).Publish"},
		{watermill + "-http/v2", watermill + "-http/v2/pkg/http.DefaultMarshalMessageFunc"},
		{watermill + "-http/v2", watermill + "-http/v2/pkg/http.DefaultUnmarshalMessageFunc"},
		{"github.com/jackc/pgx/v5", "github.com/jackc/pgx/v5/pgxpool.(*Pool).Acquire"},
	} {
		if !slices.Contains(modules, want.module) {
			t.Errorf("the program has no module %s", want.module)
		}
		if !bytes.Contains(text, []byte(want.function)) {
			t.Errorf("the program has no function %s", want.function)
		}
	}
}
