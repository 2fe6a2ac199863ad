package owntable

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
	"github.com/outriderhq/outrider/adapters/postgres/internal/reader"
	"github.com/outriderhq/outrider/internal/testenv"
)

// TestG1_G5_OpenTransactionDelaysNobody: rows behind the place of an open
// transaction come at once, and its own when it commits.
func TestG1_G5_OpenTransactionDelaysNobody(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	l := e.Lanes(e.src, adapters.StartBeginning, 100)
	open, undone := e.Begin(), e.Begin()
	insert(t, open, "g", "open")
	insert(t, undone, "g", "undone")
	insert(t, e.Pool, "h", "other")
	pgtest.WantPayloads(t, l.All(t), "other")
	pgtest.Must(t, undone.Rollback(e.Ctx))
	pgtest.WantPayloads(t, l.All(t))
	pgtest.Must(t, open.Commit(e.Ctx))
	rows := l.All(t)
	pgtest.WantPayloads(t, rows, "open")
	if rows[0].Group != "g" || rows[0].Slot != slotOf(t, e, "g") {
		t.Errorf("row %+v has the wrong group or slot", rows[0])
	}
	pgtest.WantPayloads(t, l.All(t))
}

// TestG1_CommitNewerThanEverySnapshot: the transaction with the highest id is
// in nobody's list of running transactions; its rows are late all the same.
func TestG1_CommitNewerThanEverySnapshot(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	older, newest := e.Begin(), e.Begin()
	insert(t, newest, "g", "newest")
	insert(t, older, "g", "older")
	l := e.Lanes(e.src, adapters.StartBeginning, 100)
	pgtest.Must(t, older.Commit(e.Ctx))
	pgtest.WantPayloads(t, l.All(t), "older")
	pgtest.Must(t, newest.Commit(e.Ctx))
	rows := l.All(t)
	pgtest.WantPayloads(t, rows, "newest")
	if !rows[0].Late {
		t.Error("the row behind the cursor is not marked as late")
	}
}

// TestG2_WritersThatStartInTheOppositeOrder: the transaction that began first
// writes second. What counts is who wrote first.
func TestG2_WritersThatStartInTheOppositeOrder(t *testing.T) {
	t.Parallel()
	for _, between := range []bool{false, true} {
		e := newSourceEnv(t)
		l := e.Lanes(e.src, adapters.StartBeginning, 100)
		first, second := e.Begin(), e.Begin()
		insert(t, second, "g", "1")
		pgtest.Must(t, second.Commit(e.Ctx))
		var rows []*adapters.Row
		if between {
			rows = l.All(t)
		}
		insert(t, first, "g", "2")
		pgtest.Must(t, first.Commit(e.Ctx))
		pgtest.WantPayloads(t, append(rows, l.All(t)...), "1", "2")
	}
}

// TestG2_LateRowsComeBeforeFreshOnes: a writer that saw the late commit
// continues its group.
func TestG2_LateRowsComeBeforeFreshOnes(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	l := e.Lanes(e.src, adapters.StartBeginning, 3)
	a, b := e.Begin(), e.Begin()
	insert(t, a, "g", "1")
	insert(t, a, "g", "2")
	insert(t, e.Pool, "g", "0") // not serialised with a, only moves the cursor on
	pgtest.WantPayloads(t, l.All(t), "0")
	pgtest.Must(t, a.Commit(e.Ctx))
	insert(t, b, "g", "3")
	insert(t, b, "g", "4")
	pgtest.Must(t, b.Commit(e.Ctx))
	rows, drained, err := l.Next(e.Ctx, nil)
	pgtest.Must(t, err)
	pgtest.WantPayloads(t, rows, "1", "2", "3")
	if drained {
		t.Error("a read that used up its limit claims to be drained")
	}
	pgtest.WantPayloads(t, l.All(t), "4")
}

// TestG5_OtherDatabaseOfTheClusterDelaysNobody: transaction ids are the
// cluster's, so a transaction elsewhere is in our snapshots.
func TestG5_OtherDatabaseOfTheClusterDelaysNobody(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	other, err := pgx.Connect(e.Ctx, testenv.Postgres(t))
	pgtest.Must(t, err)
	t.Cleanup(func() { pgtest.Must(t, other.Close(e.Ctx)) })
	tx, err := other.Begin(e.Ctx)
	pgtest.Must(t, err)
	_, err = tx.Exec(e.Ctx, "CREATE TABLE held (i int)")
	pgtest.Must(t, err)
	l := e.Lanes(e.src, adapters.StartBeginning, 100)
	insert(t, e.Pool, "g", "1")
	pgtest.WantPayloads(t, l.All(t), "1")
	pgtest.Must(t, tx.Rollback(e.Ctx))
	pgtest.WantPayloads(t, l.All(t))
}

// TestG7_ALargeLateTransactionIsPaged: whatever the size of a late
// transaction, a read yields no more than its limits, and all rows come once
// and in order. Fresh rows wait until the window is done.
func TestG7_ALargeLateTransactionIsPaged(t *testing.T) {
	t.Parallel()
	const limit = 300
	total := testenv.Size(20_000, 100_000) // four reads of all lanes at least
	e := newSourceEnv(t)
	l := e.Lanes(e.src, adapters.StartBeginning, limit)
	tx := e.Begin()
	_, err := tx.Exec(e.Ctx, `INSERT INTO outrider_outbox (type, payload) SELECT 't', '{"a":1}' FROM generate_series(1, $1::int)`, total)
	pgtest.Must(t, err)
	for i := range 100 {
		insert(t, e.Pool, string(rune('a'+i)), "before")
	}
	l.All(t)
	pgtest.Must(t, tx.Commit(e.Ctx))

	read, windows, drained := 0, 0, false
	var last [adapters.Slots]int64
	for !drained {
		var rows []*adapters.Row
		rows, drained, err = l.Next(e.Ctx, nil)
		pgtest.Must(t, err)
		if read == 0 {
			insert(t, e.Pool, "a", "fresh") // ends up behind everything of its slot
		}
		if len(rows) > limit*adapters.Slots {
			t.Fatalf("one read yielded %d rows, its limits are %d", len(rows), limit*adapters.Slots)
		}
		for _, row := range rows {
			if row.Position <= last[row.Slot] {
				t.Fatalf("position %d of slot %d came after %d", row.Position, row.Slot, last[row.Slot])
			}
			last[row.Slot] = row.Position
		}
		for _, c := range l.From {
			if c.Window != "" {
				windows++
			}
		}
		read += len(rows)
	}
	if read != total+1 || windows == 0 {
		t.Errorf("read %d rows with %d open windows, want %d rows in windows", read, windows, total+1)
	}
}

// TestG3_SourceSurvivesItsConnection: the read during which the connection is
// lost fails, the next one continues from the same cursor.
func TestG3_SourceSurvivesItsConnection(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	l := e.Lanes(e.src, adapters.StartBeginning, 100)
	insert(t, e.Pool, "g", "1")
	pgtest.WantPayloads(t, l.All(t), "1")
	e.Exec("SELECT pg_terminate_backend($1)", e.src.base.Conn.Conn.PgConn().PID())
	insert(t, e.Pool, "g", "2")
	if _, _, err := l.Next(e.Ctx, nil); err == nil {
		t.Fatal("a read on a terminated connection succeeded")
	}
	pgtest.WantPayloads(t, l.All(t), "2")

	cancelled, cancel := context.WithCancel(e.Ctx)
	cancel()
	if _, _, err := l.Next(cancelled, nil); err == nil {
		t.Fatal("a cancelled read succeeded")
	}
	insert(t, e.Pool, "g", "3")
	pgtest.WantPayloads(t, l.All(t), "3")
}

// TestG7_StoppedReadLeavesTheRest: take stops a read of 48 MB in the middle. A
// short rest is read away, with a long one the connection is given up.
func TestG7_StoppedReadLeavesTheRest(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	l := e.Lanes(e.src, adapters.StartBeginning, 1000)
	e.Exec(`INSERT INTO outrider_outbox (type, payload_bytes) SELECT 't', convert_to(repeat('x', 100000), 'UTF8') FROM generate_series(1, 480)`)
	stopAfter := func(n int) *reader.Conn {
		taken := 0
		results, err := e.src.Fetch(e.Ctx, l.Reads(nil), func(int, *adapters.Row) bool { taken++; return taken < n })
		pgtest.Must(t, err)
		if results != nil || taken != n {
			t.Fatalf("a stopped read returned results %v after %d rows; want none after %d", results, taken, n)
		}
		return e.src.base.Conn
	}
	if stopAfter(1) != nil {
		t.Error("the connection was kept with 48 MB to come")
	}
	if stopAfter(478) == nil {
		t.Error("the connection was given up with two rows to come")
	}
	rows := l.All(t)
	if len(rows) != 480 || len(rows[7].Payload) != 100_000 || !rows[7].Binary || cap(rows[7].Payload) != 100_000 {
		t.Errorf("read %d rows; the eighth %d bytes in %d, binary %v", len(rows), len(rows[7].Payload), cap(rows[7].Payload), rows[7].Binary)
	}
}

// TestBaseAndForeignTransactionIDs: after a rebase the transaction ids of
// restored rows mean nothing, whatever they look like.
func TestBaseAndForeignTransactionIDs(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	running := e.Begin()
	var xid string
	pgtest.Must(t, running.QueryRow(e.Ctx, "SELECT pg_current_xact_id()::text").Scan(&xid))
	e.Exec(`INSERT INTO outrider_outbox (xid, position, type, message_group, payload) OVERRIDING SYSTEM VALUE
		SELECT x::text::xid8, p, 't', 'g', to_json(p::text)
		FROM (VALUES (1, '3'), (2, '99999999999'), (3, $1), (4, '4'), (5, '99999999998')) v(p, x)`, xid)
	e.Exec(`SELECT setval(pg_get_serial_sequence('outrider_outbox', 'position'), 5)`)
	end := e.Lanes(e.src, adapters.StartEnd, 100)
	based := *end
	for i := range based.From {
		based.From[i].Position, based.From[i].Base = 2, 5
	}
	bounded := based
	pgtest.WantPayloads(t, based.All(t), "3", "4", "5")
	for limited := true; limited; {
		rows, drained, err := bounded.Next(e.Ctx, &based.From)
		pgtest.Must(t, err)
		pgtest.WantPayloads(t, rows, "3", "4", "5")
		limited = !drained
	}
	pgtest.WantPayloads(t, end.All(t))
	pgtest.Must(t, running.Rollback(e.Ctx))
	pgtest.WantPayloads(t, based.All(t))
	pgtest.WantPayloads(t, end.All(t), "3") // without a base it looks like a row of the transaction that has ended
	insert(t, e.Pool, "g", "6")
	pgtest.WantPayloads(t, based.All(t), "6")
}

func TestStart(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	open := e.Begin()
	insert(t, open, "g", "open")
	insert(t, e.Pool, "g", "old")
	e.Exec("UPDATE outrider_outbox SET created_at = now() - interval '1 hour'")
	insert(t, e.Pool, "h", "new")
	start := func(at adapters.Start) *pgtest.Lanes {
		c, err := e.src.Start(e.Ctx, at)
		pgtest.Must(t, err)
		l := &pgtest.Lanes{Src: e.src, Limit: 10}
		for i := range l.From {
			l.From[i] = c
		}
		return l
	}
	now := created(t, e.Pool, "h")
	all, end := start(adapters.Start{Kind: adapters.StartBeginning}), start(adapters.Start{Kind: adapters.StartEnd})
	since := start(adapters.Start{Kind: adapters.StartTime, Time: now})
	future := start(adapters.Start{Kind: adapters.StartTime, Time: now.AddDate(1, 0, 0)})
	pgtest.WantPayloads(t, end.All(t))
	pgtest.WantPayloads(t, future.All(t))
	pgtest.WantPayloads(t, since.All(t), "new")
	if rows := all.All(t); len(rows) != 2 {
		t.Errorf("from the beginning %q, want old and new", pgtest.Payloads(rows))
	}
	pgtest.Must(t, open.Commit(e.Ctx))
	for name, l := range map[string]*pgtest.Lanes{"beginning": all, "end": end, "time": since, "future": future} {
		if got := pgtest.Payloads(l.All(t)); !slices.Equal(got, []string{"open"}) {
			t.Errorf("started at %s: read %q, want the row that was not visible yet", name, got)
		}
	}
	if _, err := e.src.Start(e.Ctx, adapters.Start{Kind: "noon"}); err == nil {
		t.Error("a start that does not exist was accepted")
	}
}

func slotOf(t *testing.T, e *sourceEnv, group string) (slot int) {
	t.Helper()
	pgtest.Must(t, e.Pool.QueryRow(e.Ctx, "SELECT DISTINCT slot FROM outrider_outbox WHERE message_group = $1", group).Scan(&slot))
	return slot
}

// created returns when the row of a group was created.
func created(t *testing.T, pool *pgxpool.Pool, group string) (at time.Time) {
	t.Helper()
	pgtest.Must(t, pool.QueryRow(context.Background(), "SELECT created_at FROM outrider_outbox WHERE message_group = $1", group).Scan(&at))
	return at
}

// Names are not asked for their size, so a row whose id is larger than anything that
// may be read costs one read that fails; then it is read without.
func TestG7_AVastNameIsReadOnceAndThenCut(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	e.Exec(`INSERT INTO outrider_outbox (id, type, message_group, payload) SELECT repeat('é', 12000000), 't', 'g', '1'`)
	insert(t, e.Pool, "g", "behind it")
	c, err := e.src.Start(e.Ctx, adapters.Start{Kind: adapters.StartBeginning})
	pgtest.Must(t, err)
	var rows []*adapters.Row
	fetch := func() error {
		rows = nil
		var reads []adapters.Read
		for slot := range adapters.Slots {
			reads = append(reads, adapters.Read{Slot: slot, From: c, Limit: 10})
		}
		_, err := e.src.Fetch(e.Ctx, reads, func(_ int, row *adapters.Row) bool {
			rows = append(rows, row)
			return true
		})
		return err
	}
	if err := fetch(); !errors.Is(err, errLongNames) {
		t.Fatalf("the first read ended with %v", err)
	}
	pgtest.Must(t, fetch())
	if len(rows) != 2 || !errors.Is(rows[0].Err, adapters.ErrTooLarge) || rows[0].Size() > 4<<10 || rows[1].Err != nil {
		t.Fatalf("read %d rows: %+v", len(rows), rows)
	}
	if !utf8.ValidString(rows[0].ID) || len(rows[0].ID) > adapters.MaxRowNameBytes {
		t.Errorf("the id has %d bytes", len(rows[0].ID))
	}
	for _, row := range rows { // the anchor is that of the row as it was read
		pgtest.Must(t, e.src.Validate(e.Ctx, row.After()))
	}
}

// An id that is cut as it is read is no sign of a database that went back.
func TestG1_ACutIdIsTheAnchorOfItsRow(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	for _, text := range []string{"x", "é", "日"} {
		e.Exec(`INSERT INTO outrider_outbox (id, type, message_group, payload) SELECT repeat('` + text + `', 5000), 't', 'g', '1'`)
	}
	c, err := e.src.Start(e.Ctx, adapters.Start{Kind: adapters.StartBeginning})
	pgtest.Must(t, err)
	found := 0
	var reads []adapters.Read
	for slot := range adapters.Slots {
		reads = append(reads, adapters.Read{Slot: slot, From: c, Limit: 10})
	}
	var after []adapters.Cursor
	_, err = e.src.Fetch(e.Ctx, reads, func(_ int, row *adapters.Row) bool {
		found++
		after = append(after, row.After())
		return true
	})
	pgtest.Must(t, err)
	if found != 3 {
		t.Fatalf("%d rows were read", found)
	}
	for _, c := range after {
		pgtest.Must(t, e.src.Validate(e.Ctx, c))
	}
}
