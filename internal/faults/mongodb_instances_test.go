package faults_test

import (
	"fmt"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/outriderhq/outrider/internal/faults/check"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// One of three instances that share FlowCatalyst's collections in MongoDB is killed again and again under load, or leaves and joins.
// What it had claimed is recovered after the timeout and delivered, in order; nothing of its claims stays in the documents.
func TestG1_G2_InstancesOfAQueueInMongoDBAreKilled(t *testing.T) {
	t.Parallel()
	testenv.Postgres(t) // skips without a server
	d := newDocuments(t)
	state := newDatabase(t)
	state.migrate()
	to := newAPI(t, nil)
	to.killed = true
	f := &fleet{database: state, config: d.configWith(d.url, to.url(), fmt.Sprintf("lease: 5m\nstate: {url: %q}\n", state.url), "claims: {timeout: 2s, recover: 1s}, leader: false")}
	initialise(t, f.config)
	for range 3 {
		f.join()
	}
	stop := d.write()
	defer stop()
	kills := f.replaceUnderLoad(2, 50, to.arrived)
	stop()
	f.members[0].until("settled everything", d.completed)
	for _, r := range f.members {
		r.stop()
	}
	d.asTheOriginalLeavesThem()
	report := check.Compare(d.rows(), to.all()...)
	t.Logf("%d kills of one of 3 instances that share collections in MongoDB, worst even spread %v: %v", kills, f.worst.Round(time.Millisecond), report)
	if !report.Clean() || report.Committed == 0 {
		t.Errorf("not clean: %v", report)
	}
}

// The network between the relay and MongoDB fails in every way, and for a while nothing answers at the server's address. Documents are written
// meanwhile, no more than a server keeps up with that reads all of them for each statement, as the one of the tests does.
func TestG1_G2_NetworkToMongoDB(t *testing.T) {
	t.Parallel()
	d := newDocuments(t)
	to := newAPI(t, nil)
	to.killed = true // what was sent and not settled is sent again
	u, err := url.Parse(d.url)
	must(t, err)
	net := connectVia(t, u.Host)
	u.Host = net.Listen
	state := filepath.Join(t.TempDir(), "state.db")
	config := d.configWith(u.String(), to.url(), fmt.Sprintf("lease: 5s\nstate: {url: %q}\n", state), "claims: {timeout: 30s, recover: 1s}")
	initialise(t, config)
	r := start(t, config)
	written := 0
	write := func() {
		t.Helper()
		for group := range d.turns {
			must(t, d.publish(t.Context(), outbox.FlowCatalystEvent, group, fmt.Sprint(written, "-", group), 3))
		}
		written++
	}
	write()
	r.until("delivered and settled everything", d.completed)
	down := trouble{"nobody at the address", func() func() { net.Stop(); return net.restart }}
	for range rounds(t, 1, 10) {
		for _, trouble := range append(net.disturbances(), down) {
			before := to.arrived()
			write()
			end := trouble.begin()
			write()
			pause(t.Context(), troubleTime)
			end()
			r.until("delivers after "+trouble.name, func() bool { return to.arrived() >= before+len(d.turns)*3 })
		}
	}
	r.until("delivered and settled everything", d.completed)
	r.stop()
	d.asTheOriginalLeavesThem()
	report := check.Compare(d.rows(), to.all()...)
	t.Logf("%d batches of documents beside faults of the network to MongoDB: %v", written, report)
	if !report.Clean() || report.Committed != written*len(d.turns)*3 {
		t.Errorf("want %d documents in order: %v", written*len(d.turns)*3, report)
	}
}
