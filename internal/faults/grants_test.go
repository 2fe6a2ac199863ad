package faults_test

import (
	"context"
	"crypto/rand"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outriderhq/outrider/internal/testenv"
)

// A relay that has the grants that init prints and nothing else, on tables of
// another owner, loses nothing whenever it is killed.
func TestG1_G12_KillLoopWithGrantsAlone(t *testing.T) {
	t.Parallel()
	testenv.Postgres(t) // skips without a server
	r := receive(t, nil)
	db := newDatabase(t)
	role := "relay_" + strings.ToLower(rand.Text())
	db.exec("CREATE ROLE " + role + " LOGIN NOSUPERUSER")
	t.Cleanup(func() {
		for _, statement := range []string{"DROP OWNED BY ", "DROP ROLE "} {
			_, err := db.pool.Exec(context.Background(), statement+role)
			must(t, err)
		}
	})
	s := settings{database: db.url, top: append([]string{"state: {schema: Outrider_State}"}, quick...), destination: toHTTP(r.url()), window: killWindow}
	file := filepath.Join(t.TempDir(), "owner.yaml")
	must(t, os.WriteFile(file, []byte(s.text()), 0o600))
	command(t, "init", "-c", file)
	granted := 0
	for line := range strings.Lines(command(t, "init", "--print", "--relay", role, "-c", file)) {
		if strings.HasPrefix(line, "GRANT ") {
			db.exec(line)
			granted++
		}
	}
	u, err := url.Parse(db.url)
	must(t, err)
	u.User = url.User(role)
	s.database = u.String()
	killLoopOn(t, db, s.text(), testenv.Brief(4, 10), r)
	const tables = `SELECT count(*) FROM pg_tables WHERE schemaname = 'outrider_state' AND tableowner = current_user`
	if n := one[int](db, tables); n != 11 || granted < n {
		t.Errorf("%d tables of the owner's, %d grants", n, granted)
	}
}
