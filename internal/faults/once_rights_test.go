package faults_test

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/outriderhq/outrider/internal/testenv"
)

// With the rights that docs/exclusive.md lists exactly_once works. Without one of them a relay says which.
func TestG12_TheRightsOfExactlyOnce(t *testing.T) {
	t.Parallel()
	full(t) // a broker of its own
	const user, password = "alice", "hunter2"
	authority := testenv.NewAuthority(t)
	broker := testenv.StartSecureKafka(t, authority, user, password)
	l, db := newLogOf(t, broker.Brokers(), 1, nil), newDatabase(t)
	config := settings{database: db.url, top: quick, destination: fmt.Sprintf("type: kafka, brokers: [%q], topic: %s, exclusive: true, exactly_once: true, transactional_id: shop, "+
		"sasl: {mechanism: scram-sha-512, username: %s, password: %s}, tls: {ca_file: %q}", broker.LoginBrokers()[0], l.topic, user, password, authority.File)}.text()
	groups := func(login string) {
		t.Helper()
		l.allow(kadm.NewACLs().ResourcePatternType(kadm.ACLPatternPrefixed).Groups("shop-").Operations(kadm.OpRead).Allow("User:" + login).AllowHosts("*"))
	}
	groups("nobody") // from now on they are closed to others
	l.grant("nobody", true, kadm.OpWrite)
	l.grant(user, true, kadm.OpWrite)
	db.migrate()
	refused := func(want string) {
		t.Helper()
		r := start(t, config)
		r.says(want)
		r.kill()
	}
	refused(`grant READ on groups that begin with the destination's transactional_id`)
	groups(user)
	refused(`no permission to keep notes beside topic \\?"\S+": grant READ on it`)
	l.grant(user, true, kadm.OpRead)
	r := start(t, config)
	to := committed(t, broker.Brokers(), l.topic)
	tx, err := db.pool.Begin(t.Context())
	must(t, err)
	must(t, insert(t.Context(), tx, "g", 20))
	must(t, tx.Commit(t.Context()))
	r.until("delivered", func() bool { return to.arrived() == 20 })
	r.stop()
}
