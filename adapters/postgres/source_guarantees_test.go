package postgres

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// TestG1_G5_OpenTransactionDelaysNobody: rows behind the place of an open
// transaction come at once, and its own when it commits.
func TestG1_G5_OpenTransactionDelaysNobody(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	l := e.lanes(e.src, outbox.StartBeginning, 100)
	open, undone := e.begin(), e.begin()
	insert(t, open, "g", "open")
	insert(t, undone, "g", "undone")
	insert(t, e.pool, "h", "other")
	wantPayloads(t, l.all(t), "other")
	must(t, undone.Rollback(e.ctx))
	wantPayloads(t, l.all(t))
	must(t, open.Commit(e.ctx))
	rows := l.all(t)
	wantPayloads(t, rows, "open")
	if rows[0].Group != "g" || rows[0].Slot != slotOf(t, e, "g") {
		t.Errorf("row %+v has the wrong group or slot", rows[0])
	}
	wantPayloads(t, l.all(t))
}

// TestG1_CommitNewerThanEverySnapshot: the transaction with the highest id is
// in nobody's list of running transactions; its rows are late all the same.
func TestG1_CommitNewerThanEverySnapshot(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	older, newest := e.begin(), e.begin()
	insert(t, newest, "g", "newest")
	insert(t, older, "g", "older")
	l := e.lanes(e.src, outbox.StartBeginning, 100)
	must(t, older.Commit(e.ctx))
	wantPayloads(t, l.all(t), "older")
	must(t, newest.Commit(e.ctx))
	rows := l.all(t)
	wantPayloads(t, rows, "newest")
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
		l := e.lanes(e.src, outbox.StartBeginning, 100)
		first, second := e.begin(), e.begin()
		insert(t, second, "g", "1")
		must(t, second.Commit(e.ctx))
		var rows []*outbox.Row
		if between {
			rows = l.all(t)
		}
		insert(t, first, "g", "2")
		must(t, first.Commit(e.ctx))
		wantPayloads(t, append(rows, l.all(t)...), "1", "2")
	}
}

// TestG2_LateRowsComeBeforeFreshOnes: a writer that saw the late commit
// continues its group.
func TestG2_LateRowsComeBeforeFreshOnes(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	l := e.lanes(e.src, outbox.StartBeginning, 3)
	a, b := e.begin(), e.begin()
	insert(t, a, "g", "1")
	insert(t, a, "g", "2")
	insert(t, e.pool, "g", "0") // not serialised with a, only moves the cursor on
	wantPayloads(t, l.all(t), "0")
	must(t, a.Commit(e.ctx))
	insert(t, b, "g", "3")
	insert(t, b, "g", "4")
	must(t, b.Commit(e.ctx))
	rows, drained, err := l.next(e.ctx, nil)
	must(t, err)
	wantPayloads(t, rows, "1", "2", "3")
	if drained {
		t.Error("a read that used up its limit claims to be drained")
	}
	wantPayloads(t, l.all(t), "4")
}

// TestG5_OtherDatabaseOfTheClusterDelaysNobody: transaction ids are the
// cluster's, so a transaction elsewhere is in our snapshots.
func TestG5_OtherDatabaseOfTheClusterDelaysNobody(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	other, err := pgx.Connect(e.ctx, testenv.Postgres(t))
	must(t, err)
	t.Cleanup(func() { must(t, other.Close(e.ctx)) })
	tx, err := other.Begin(e.ctx)
	must(t, err)
	_, err = tx.Exec(e.ctx, "CREATE TABLE held (i int)")
	must(t, err)
	l := e.lanes(e.src, outbox.StartBeginning, 100)
	insert(t, e.pool, "g", "1")
	wantPayloads(t, l.all(t), "1")
	must(t, tx.Rollback(e.ctx))
	wantPayloads(t, l.all(t))
}

// TestG7_LateTransactionOf100000RowsIsPaged: whatever the size of a late
// transaction, a read yields no more than its limits, and all rows come once
// and in order. Fresh rows wait until the window is done.
func TestG7_LateTransactionOf100000RowsIsPaged(t *testing.T) {
	t.Parallel()
	const total, limit = 100_000, 300
	e := newSourceEnv(t)
	l := e.lanes(e.src, outbox.StartBeginning, limit)
	tx := e.begin()
	_, err := tx.Exec(e.ctx, `INSERT INTO outrider_outbox (type, payload) SELECT 't', '{"a":1}' FROM generate_series(1, $1::int)`, total)
	must(t, err)
	for i := range 100 {
		insert(t, e.pool, string(rune('a'+i)), "before")
	}
	l.all(t)
	must(t, tx.Commit(e.ctx))

	read, windows, drained := 0, 0, false
	var last [outbox.Slots]int64
	for !drained {
		var rows []*outbox.Row
		rows, drained, err = l.next(e.ctx, nil)
		must(t, err)
		if read == 0 {
			insert(t, e.pool, "a", "fresh") // ends up behind everything of its slot
		}
		if len(rows) > limit*outbox.Slots {
			t.Fatalf("one read yielded %d rows, its limits are %d", len(rows), limit*outbox.Slots)
		}
		for _, row := range rows {
			if row.Position <= last[row.Slot] {
				t.Fatalf("position %d of slot %d came after %d", row.Position, row.Slot, last[row.Slot])
			}
			last[row.Slot] = row.Position
		}
		for _, c := range l.from {
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
// lost fails, the next one goes on from the same cursor.
func TestG3_SourceSurvivesItsConnection(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	l := e.lanes(e.src, outbox.StartBeginning, 100)
	insert(t, e.pool, "g", "1")
	wantPayloads(t, l.all(t), "1")
	e.exec("SELECT pg_terminate_backend($1)", e.src.conn.conn.PgConn().PID())
	insert(t, e.pool, "g", "2")
	if _, _, err := l.next(e.ctx, nil); err == nil {
		t.Fatal("a read on a terminated connection succeeded")
	}
	wantPayloads(t, l.all(t), "2")

	cancelled, cancel := context.WithCancel(e.ctx)
	cancel()
	if _, _, err := l.next(cancelled, nil); err == nil {
		t.Fatal("a cancelled read succeeded")
	}
	insert(t, e.pool, "g", "3")
	wantPayloads(t, l.all(t), "3")
}

// TestG7_StoppedReadLeavesTheRest: take stops a read of 48 MB in the middle. A
// short rest is read away, with a long one the connection is given up.
func TestG7_StoppedReadLeavesTheRest(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	l := e.lanes(e.src, outbox.StartBeginning, 1000)
	e.exec(`INSERT INTO outrider_outbox (type, payload_bytes) SELECT 't', convert_to(repeat('x', 100000), 'UTF8') FROM generate_series(1, 480)`)
	stopAfter := func(n int) *readConn {
		taken := 0
		results, err := e.src.Fetch(e.ctx, l.reads(nil), func(int, *outbox.Row) bool { taken++; return taken < n })
		must(t, err)
		if results != nil || taken != n {
			t.Fatalf("a stopped read returned results %v after %d rows; want none after %d", results, taken, n)
		}
		return e.src.conn
	}
	if stopAfter(1) != nil {
		t.Error("the connection was kept with 48 MB to come")
	}
	if stopAfter(478) == nil {
		t.Error("the connection was given up with two rows to come")
	}
	rows := l.all(t)
	if len(rows) != 480 || len(rows[7].Payload) != 100_000 || !rows[7].Binary || cap(rows[7].Payload) != 100_000 {
		t.Errorf("read %d rows; the eighth %d bytes in %d, binary %v", len(rows), len(rows[7].Payload), cap(rows[7].Payload), rows[7].Binary)
	}
}

// TestBaseAndForeignTransactionIDs: after a rebase the transaction ids of
// restored rows mean nothing, whatever they look like.
func TestBaseAndForeignTransactionIDs(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	running := e.begin()
	var xid string
	must(t, running.QueryRow(e.ctx, "SELECT pg_current_xact_id()::text").Scan(&xid))
	e.exec(`INSERT INTO outrider_outbox (xid, position, type, message_group, payload) OVERRIDING SYSTEM VALUE
		SELECT x::text::xid8, p, 't', 'g', to_json(p::text)
		FROM (VALUES (1, '3'), (2, '99999999999'), (3, $1), (4, '4'), (5, '99999999998')) v(p, x)`, xid)
	e.exec(`SELECT setval(pg_get_serial_sequence('outrider_outbox', 'position'), 5)`)
	end := e.lanes(e.src, outbox.StartEnd, 100)
	based := *end
	for i := range based.from {
		based.from[i].Position, based.from[i].Base = 2, 5
	}
	bounded := based
	wantPayloads(t, based.all(t), "3", "4", "5")
	for limited := true; limited; {
		rows, drained, err := bounded.next(e.ctx, &based.from)
		must(t, err)
		wantPayloads(t, rows, "3", "4", "5")
		limited = !drained
	}
	wantPayloads(t, end.all(t))
	must(t, running.Rollback(e.ctx))
	wantPayloads(t, based.all(t))
	wantPayloads(t, end.all(t), "3") // without a base it looks like a row of the transaction that has ended
	insert(t, e.pool, "g", "6")
	wantPayloads(t, based.all(t), "6")
}

func TestStart(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	open := e.begin()
	insert(t, open, "g", "open")
	insert(t, e.pool, "g", "old")
	e.exec("UPDATE outrider_outbox SET created_at = now() - interval '1 hour'")
	insert(t, e.pool, "h", "new")
	start := func(at outbox.Start) *lanes {
		c, err := e.src.Start(e.ctx, at)
		must(t, err)
		l := &lanes{src: e.src, limit: 10}
		for i := range l.from {
			l.from[i] = c
		}
		return l
	}
	now := created(t, e.pool, "h")
	all, end := start(outbox.Start{Kind: outbox.StartBeginning}), start(outbox.Start{Kind: outbox.StartEnd})
	since := start(outbox.Start{Kind: outbox.StartTime, Time: now})
	future := start(outbox.Start{Kind: outbox.StartTime, Time: now.AddDate(1, 0, 0)})
	wantPayloads(t, end.all(t))
	wantPayloads(t, future.all(t))
	wantPayloads(t, since.all(t), "new")
	if rows := all.all(t); len(rows) != 2 {
		t.Errorf("from the beginning %q, want old and new", payloads(rows))
	}
	must(t, open.Commit(e.ctx))
	for name, l := range map[string]*lanes{"beginning": all, "end": end, "time": since, "future": future} {
		if got := payloads(l.all(t)); !slices.Equal(got, []string{"open"}) {
			t.Errorf("started at %s: read %q, want the row that was not visible yet", name, got)
		}
	}
	if _, err := e.src.Start(e.ctx, outbox.Start{Kind: "noon"}); err == nil {
		t.Error("a start that does not exist was accepted")
	}
}

func slotOf(t *testing.T, e *sourceEnv, group string) (slot int) {
	t.Helper()
	must(t, e.pool.QueryRow(e.ctx, "SELECT DISTINCT slot FROM outrider_outbox WHERE message_group = $1", group).Scan(&slot))
	return slot
}

// created returns when the row of a group was created.
func created(t *testing.T, pool *pgxpool.Pool, group string) (at time.Time) {
	t.Helper()
	must(t, pool.QueryRow(context.Background(), "SELECT created_at FROM outrider_outbox WHERE message_group = $1", group).Scan(&at))
	return at
}

// Names are not asked for their size, so a row whose id is larger than anything that
// may be read costs one read that fails; then it is read without.
func TestG7_AVastNameIsReadOnceAndThenCut(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	e.exec(`INSERT INTO outrider_outbox (id, type, message_group, payload) SELECT repeat('é', 12000000), 't', 'g', '1'`)
	insert(t, e.pool, "g", "behind it")
	c, err := e.src.Start(e.ctx, outbox.Start{Kind: outbox.StartBeginning})
	must(t, err)
	var rows []*outbox.Row
	fetch := func() error {
		rows = nil
		var reads []outbox.Read
		for slot := range outbox.Slots {
			reads = append(reads, outbox.Read{Slot: slot, From: c, Limit: 10})
		}
		_, err := e.src.Fetch(e.ctx, reads, func(_ int, row *outbox.Row) bool {
			rows = append(rows, row)
			return true
		})
		return err
	}
	if err := fetch(); !errors.Is(err, errLongNames) {
		t.Fatalf("the first read ended with %v", err)
	}
	must(t, fetch())
	if len(rows) != 2 || !errors.Is(rows[0].Err, outbox.ErrTooLarge) || rows[0].Size() > 4<<10 || rows[1].Err != nil {
		t.Fatalf("read %d rows: %+v", len(rows), rows)
	}
	if !utf8.ValidString(rows[0].ID) || len(rows[0].ID) > outbox.MaxRowNameBytes {
		t.Errorf("the id has %d bytes", len(rows[0].ID))
	}
	for _, row := range rows { // the anchor is that of the row as it was read
		must(t, e.src.Validate(e.ctx, row.After()))
	}
}

// An id that is cut as it is read is no sign of a database that went back.
func TestG1_ACutIdIsTheAnchorOfItsRow(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	for _, text := range []string{"x", "é", "日"} {
		e.exec(`INSERT INTO outrider_outbox (id, type, message_group, payload) SELECT repeat('` + text + `', 5000), 't', 'g', '1'`)
	}
	c, err := e.src.Start(e.ctx, outbox.Start{Kind: outbox.StartBeginning})
	must(t, err)
	found := 0
	var reads []outbox.Read
	for slot := range outbox.Slots {
		reads = append(reads, outbox.Read{Slot: slot, From: c, Limit: 10})
	}
	var after []outbox.Cursor
	_, err = e.src.Fetch(e.ctx, reads, func(_ int, row *outbox.Row) bool {
		found++
		after = append(after, row.After())
		return true
	})
	must(t, err)
	if found != 3 {
		t.Fatalf("%d rows were read", found)
	}
	for _, c := range after {
		must(t, e.src.Validate(e.ctx, c))
	}
}
