package faults_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/outriderhq/outrider/adapters/sqlite"
	"github.com/outriderhq/outrider/adapters/sqlite/owntable"
)

func TestSecondInstanceOnSQLiteIsRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program")
	}
	t.Parallel()
	path := filepath.Join(t.TempDir(), "app.db")
	db, err := sqlite.Open(path)
	must(t, err)
	defer func() { must(t, db.Close()) }()
	_, err = owntable.Init(t.Context(), db, "")
	must(t, err)
	_, err = db.ExecContext(t.Context(), `INSERT INTO outrider_outbox (type, payload) VALUES ('t', '{"id": "1"}')`)
	must(t, err)
	to := receive(t, nil)
	config := fmt.Sprintf("admin: {listen: off}\nsources: {app: {type: sqlite, path: %q}}\n"+
		"destinations: {there: {%s}}\nroutes: {orders: {from: app, to: there}}\n", path, toHTTP(to.url()))
	first := start(t, config)
	first.until("delivers", func() bool { return to.arrived() > 0 })
	second := start(t, config)
	if err := second.wait(); err == nil {
		t.Error("the second instance ended with status 0, want a failure")
	}
	second.says("another instance is running on this database")
	first.stop()
}
