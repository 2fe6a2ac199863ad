package testenv

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
)

// agedSQL makes the server show, in one database, transactions of some applications as begun 6 minutes earlier:
// they count as long after 5.
const agedSQL = `
SET allow_system_table_mods = on;
DO $$ BEGIN EXECUTE 'CREATE OR REPLACE VIEW pg_catalog.pg_stat_activity AS ' || replace(pg_get_viewdef('pg_catalog.pg_stat_activity'),
	's.xact_start,', 's.xact_start - CASE WHEN s.application_name LIKE ''%nightly-report'' THEN interval ''6 minutes'' ELSE interval ''0'' END AS xact_start,'); END $$`

// AgeTransactions has transactions of applications whose names end in nightly-report count as open for long, in this database.
func AgeTransactions(t testing.TB, url string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err == nil {
		_, err = conn.Exec(t.Context(), agedSQL)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
}
