package pg

import (
	"context"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// refusalRest is how long the connections of a pool are not tried again after the
// server has answered that there is no such database, or that the password is wrong.
// Each part of a relay tries on its own, some of them ten times a second, because a
// server that restarts has to be found at once; one that answers is found already.
const refusalRest = 500 * time.Millisecond

// refusals remembers the last refusal of a server.
type refusals struct {
	mu   sync.Mutex
	when time.Time
	err  error
}

// restAfterRefusals has the pool repeat what the server said in place of asking again, for
// a while.
func restAfterRefusals(pc *pgxpool.Config) {
	var r refusals
	before, failed := pc.BeforeConnect, pc.ConnConfig.OnPgError
	pc.BeforeConnect = func(ctx context.Context, cfg *pgx.ConnConfig) error {
		if err := r.recent(); err != nil {
			return err
		}
		if before == nil {
			return nil
		}
		return before(ctx, cfg)
	}
	cfg := &pc.ConnConfig.Config
	pc.ConnConfig.OnPgError = func(conn *pgconn.PgConn, refused *pgconn.PgError) bool {
		r.note(whoRefused(conn, cfg), cfg, refused)
		return failed == nil || failed(conn, refused)
	}
}

// recent returns what the server said lately; nil: nothing, so it may be asked.
func (r *refusals) recent() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil && time.Since(r.when) < refusalRest {
		return r.err
	}
	return nil
}

// note remembers a refusal after which pgx tries no other way in.
func (r *refusals) note(where string, cfg *pgconn.Config, refused *pgconn.PgError) {
	fatal := strings.EqualFold(refused.Severity, "FATAL")
	if !fatal || refused.Code != unknownDatabase && refused.Code != invalidPassword {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.when, r.err = time.Now(), &ConnectFailure{refusal(where, refused, cfg), admission(refused, cfg), refused}
}

// whoRefused is the server that a connection was made to: as it is configured or, where
// there are several, by its address.
func whoRefused(conn *pgconn.PgConn, cfg *pgconn.Config) string {
	for _, f := range cfg.Fallbacks {
		if to := conn.Conn(); to != nil && (f.Host != cfg.Host || f.Port != cfg.Port) {
			return to.RemoteAddr().String()
		}
	}
	return net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port)))
}
