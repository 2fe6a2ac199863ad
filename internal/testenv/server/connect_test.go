package server

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/magiconair/properties"
)

func TestPropertiesAreWrittenForUsAlone(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "connector.properties")
	want := map[string]string{"name": "outbox", "password": ` a\b=c:d#`, "regex": "order(.*)", "replacement": "${topic}$1", "empty": ""}
	for range 2 { // the second time over the first
		if err := writeProperties(file, want); err != nil {
			t.Fatal(err)
		}
	}
	got, err := (&properties.Loader{Encoding: properties.ISO_8859_1, DisableExpansion: true}).LoadFile(file)
	if err != nil || got.Len() != len(want) {
		t.Fatalf("got %v, %v", got, err)
	}
	for key, value := range want {
		if got.GetString(key, "missing") != value {
			t.Errorf("%s is %q, want %q", key, got.GetString(key, "missing"), value)
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestConnectIsReadyWhenItsTaskRuns(t *testing.T) {
	t.Parallel()
	var status string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/connectors/outbox/status" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(status))
	}))
	defer api.Close()
	c := Connect{opts: ConnectOptions{Connector: map[string]string{"name": "outbox"}}, port: api.Listener.Addr().(*net.TCPAddr).Port}
	for text, want := range map[string]string{
		`{"tasks": [{"id": 0, "state": "RUNNING"}]}`: "",
		`{"tasks": []}`:                          "no task yet",
		`{"error_code": 404, "message": "none"}`: "no task yet",
		`{"tasks": [{"id": 0, "state": "FAILED", "trace": "java: no such db"}]}`: "FAILED: java: no such db",
		`<html>`: "invalid character",
	} {
		status = text
		err := c.ask(t.Context())
		if (want == "") != (err == nil) || want != "" && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}
