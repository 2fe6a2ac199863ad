package pg

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters"
)

// ExaminePatience bounds an examination: a server that does not answer is a
// finding too.
const ExaminePatience = 20 * time.Second

// encryption says for people how connections of a pool are secured.
func encryption(ctx context.Context, pool *pgxpool.Pool) string {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return "encryption unknown"
	}
	defer conn.Release()
	secured, ok := conn.Conn().PgConn().Conn().(*tls.Conn)
	if !ok {
		return "not encrypted"
	}
	state := secured.ConnectionState()
	if len(state.VerifiedChains) == 0 {
		return tls.VersionName(state.Version) + ", the server's certificate not checked in full"
	}
	return tls.VersionName(state.Version) + ", the server's certificate checked"
}

// ExamineServer looks at the connection; the second result is false when there
// is nothing more to ask.
func ExamineServer(ctx context.Context, pool *pgxpool.Pool) ([]adapters.Finding, bool) {
	var version int
	var name, database, role string
	var standby bool
	err := pool.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, current_setting('server_version'),
    pg_is_in_recovery(), current_database(), current_user`).Scan(&version, &name, &standby, &database, &role)
	if err != nil && errors.Is(CheckSessions(ctx, pool), ErrLentSessions) { // its prepared statements are elsewhere
		return []adapters.Finding{lent("a relay")}, false
	}
	if err != nil {
		return []adapters.Finding{{Level: adapters.LevelBroken, Subject: "connection", Text: withoutFix(err), Fix: ConnectionFix(err)}}, false
	}
	f := []adapters.Finding{Fine("connection", fmt.Sprintf("database %s as role %s, %s", database, role, encryption(ctx, pool)))}
	judged := judgeVersion(version, name)
	f = append(f, judged)
	if judged.Level == adapters.LevelBroken {
		return f, false
	}
	if standby {
		return append(f, Judge("primary server", "", ErrStandby)...), true
	}
	return append(f, Fine("primary server", "not a standby")), true
}

// judgeVersion says what a server's version means. version is its server_version_num.
func judgeVersion(version int, name string) adapters.Finding {
	const subject = "server version"
	switch {
	case version < oldestServer:
		return adapters.Finding{Level: adapters.LevelBroken, Subject: subject, Text: "PostgreSQL " + name + " is too old", Fix: "upgrade to PostgreSQL 13 or later"}
	case version == 18_00_00 || version == 18_00_01:
		return adapters.Finding{Level: adapters.LevelWarning, Subject: subject, Text: "PostgreSQL " + name +
			" misses rows in some statements while others change them: claims, and lanes that change hands, may have to be tried again", Fix: "upgrade to PostgreSQL 18.4 or later"}
	}
	return Fine(subject, "PostgreSQL "+name)
}

// ExamineClock compares the server's clock with this host's.
func ExamineClock(ctx context.Context, pool *pgxpool.Pool) adapters.Finding {
	const subject = "clocks"
	var theirs time.Time
	before := time.Now()
	if err := pool.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&theirs); err != nil {
		return Unknown(subject, err)
	}
	trip := time.Since(before)
	return adapters.ExamineClock(subject, theirs.Sub(before.Add(trip/2)), trip/2)
}

// Fine is a finding about something that is as it should be.
func Fine(subject, text string) adapters.Finding {
	return adapters.Finding{Level: adapters.LevelOK, Subject: subject, Text: text}
}

// Unknown is a thing that could not be looked at.
func Unknown(subject string, err error) adapters.Finding {
	return adapters.Finding{Level: adapters.LevelUnknown, Subject: subject, Text: withoutFix(err)}
}

// Judge makes findings of errors, of each that was joined.
func Judge(subject, good string, err error) []adapters.Finding {
	if err == nil {
		return []adapters.Finding{Fine(subject, good)}
	}
	return adapters.FindingsOf(subject, err)
}
