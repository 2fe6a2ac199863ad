package faults_test

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/outriderhq/outrider/internal/testenv"
)

// aclOf is an operation on the topic or on the group of the log, for a login.
func (l *log) aclOf(login string, topic bool, op kadm.ACLOperation) *kadm.ACLBuilder {
	b := kadm.NewACLs().ResourcePatternType(kadm.ACLPatternLiteral).Operations(op).Allow("User:" + login).AllowHosts("*")
	if topic {
		return b.Topics(l.topic)
	}
	return b.Groups(l.topic)
}

func (l *log) grant(login string, topic bool, op kadm.ACLOperation) {
	l.t.Helper()
	l.allow(l.aclOf(login, topic, op))
}

func (l *log) allow(acl *kadm.ACLBuilder) {
	l.t.Helper()
	created, err := l.admin.CreateACLs(l.t.Context(), acl)
	must(l.t, err)
	for _, one := range created {
		must(l.t, one.Err)
	}
}

func (l *log) revoke(login string, topic bool, op kadm.ACLOperation) {
	l.t.Helper()
	deleted, err := l.admin.DeleteACLs(l.t.Context(), l.aclOf(login, topic, op))
	must(l.t, err)
	for _, one := range deleted {
		must(l.t, one.Err)
	}
}

// With the rights that docs/kafka.md lists a relay works, over TLS and with a password. Without one of them it says which, and goes on when it has
// it again.
func TestG12_TheRightsOfAKafkaSource(t *testing.T) {
	t.Parallel()
	full(t) // a broker of its own
	const user, password = "alice", "hunter2"
	authority := testenv.NewAuthority(t)
	broker := testenv.StartSecureKafka(t, authority, user, password)
	l, db, to := newLogOf(t, broker.Brokers(), 1, nil), newDatabase(t), receive(t, nil)
	login := *l
	login.brokers = broker.LoginBrokers()
	config := login.config(db.url, toHTTP(to.url()),
		fmt.Sprintf("sasl: {mechanism: scram-sha-512, username: %s, password: %s}, tls: {ca_file: %q}", user, password, authority.File))

	l.grant("nobody", true, kadm.OpRead) // from now on topic and group are closed to others
	l.grant("nobody", false, kadm.OpRead)
	l.write("first", 10, 50)
	refused := func(resource string) {
		t.Helper()
		r := start(t, config)
		r.says("no permission to (read|use) " + resource + ` \\?"\S+": \w+_AUTHORIZATION_FAILED.*grant READ.* on it`)
		r.kill()
	}
	refused("topic")
	l.grant(user, true, kadm.OpRead)
	refused("group")
	l.grant(user, false, kadm.OpDescribe)
	refused("group")
	l.grant(user, false, kadm.OpRead)
	r := start(t, config)
	r.until("delivered", func() bool { return to.arrived() == 50 })
	r.until("has committed", func() bool { return l.committed(0) == 50 })

	l.grant(user, true, kadm.OpDescribe)
	l.revoke(user, true, kadm.OpRead)
	l.write("second", 10, 50) // a fetch that waits since before may have it
	r.says(`cannot read the source.*topic \\?"\S+": TOPIC_AUTHORIZATION_FAILED`)
	l.write("third", 10, 50)
	l.grant(user, true, kadm.OpRead)
	r.until("delivered again", func() bool { return to.arrived() == 150 })
	r.stop()
	eachOnce(t, l.rows(), to)
}
