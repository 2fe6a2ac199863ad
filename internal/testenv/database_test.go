package testenv

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// A read that pgx leaves behind is a goroutine of a connection that no test knows.
func TestAConnectionThatIsBeingReadServesNoMore(t *testing.T) {
	t.Parallel()
	server := shared(t, EnvPostgres, "PostgreSQL")
	var used *pgx.Conn
	var plain bool
	err := administer(t.Context(), server, func(conn *pgx.Conn) error {
		used = conn
		_, err := conn.Exec(t.Context(), "SELECT 1")
		network, ok := conn.PgConn().Conn().(watched)
		if plain = ok; !plain {
			return err // a server of the developer's, with TLS
		}
		t.Cleanup(func() { _ = network.Close() })
		go func() { _, _ = network.Read(make([]byte, 1)) }()
		for network.reads.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if plain && !used.IsClosed() {
		t.Error("a connection that is being read was kept for others")
	}
}
