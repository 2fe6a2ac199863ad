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
	grant := func(of *kadm.ACLBuilder, prefix bool, op kadm.ACLOperation, login string) {
		t.Helper()
		pattern := kadm.ACLPatternLiteral
		if prefix {
			pattern = kadm.ACLPatternPrefixed
		}
		created, err := l.admin.CreateACLs(t.Context(), of.ResourcePatternType(pattern).Operations(op).Allow("User:"+login).AllowHosts("*"))
		must(t, err)
		for _, one := range created {
			must(t, one.Err)
		}
	}
	group := func() *kadm.ACLBuilder { return kadm.NewACLs().Groups("shop-") }
	topic := func() *kadm.ACLBuilder { return kadm.NewACLs().Topics(l.topic) }
	grant(group(), true, kadm.OpRead, "nobody") // from now on they are closed to others
	grant(topic(), false, kadm.OpWrite, "nobody")
	grant(topic(), false, kadm.OpWrite, user)
	db.migrate()
	refused := func(want string) {
		t.Helper()
		r := start(t, config)
		r.says(want)
		r.kill()
	}
	refused(`grant READ on groups that begin with the destination's transactional_id`)
	grant(group(), true, kadm.OpRead, user)
	refused(`no permission to keep notes beside topic \\?"\S+": grant READ on it`)
	grant(topic(), false, kadm.OpRead, user)
	r := start(t, config)
	to := committed(t, broker.Brokers(), l.topic)
	tx, err := db.pool.Begin(t.Context())
	must(t, err)
	must(t, insert(t.Context(), tx, "g", 20))
	must(t, tx.Commit(t.Context()))
	r.until("delivered", func() bool { return to.arrived() == 20 })
	r.stop()
}
