package system_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/outbox"
)

// applicable are the steps that a table has.
func (n *neighbour) applicable() map[string]func() {
	steps := map[string]func(){
		"roll back": n.rollBack, "commit late": n.commitLate, "reload": n.reload, "restart": n.restart,
		"resume behind a lock": n.resumeBehindALock, "alter": n.alter, "rename": n.rename, "pause the route": n.pauseRoute,
	}
	if n.database != "sqlite" {
		steps["prepare"] = n.prepare
	}
	if n.hot() {
		steps["end a hot transaction"] = n.endHot
	}
	if n.done == "" {
		steps["seek"] = n.seek
		return steps
	}
	steps["update"], steps["delete"], steps["truncate"], steps["redrive"], steps["purge"] = n.update, n.remove, n.truncate, n.redrive, n.purge
	if n.database != "sqlite" {
		steps["lock a row in flight"] = n.lockRow
	}
	if n.due != "" {
		steps["hurry"] = n.hurry
	}
	return steps
}

// rollBack inserts rows and takes them back.
func (n *neighbour) rollBack() {
	tx, err := n.db.BeginTx(n.Context(), nil)
	must(n.T, err)
	n.commits("rolled back", n.write(tx, "rolled back", 3), true)
	must(n.T, tx.Rollback())
}

// commitLate commits after others that inserted later.
func (n *neighbour) commitLate() {
	tx, err := n.db.BeginTx(n.Context(), nil)
	must(n.T, err)
	late := n.write(tx, "late", 3)
	if n.database != "sqlite" { // which has one writer
		ids := n.publish(n.other(), 3)
		n.await("what was committed before arrives", func() bool { return n.arrived(ids) })
	}
	must(n.T, tx.Commit())
	n.commits("late", late, false)
}

// prepare has the server keep two transactions, of which it commits one.
func (n *neighbour) prepare() {
	for _, end := range []string{"COMMIT", "ROLLBACK"} {
		s, id := n.session(), fmt.Sprintf("'n%d'", rand.Uint64()) // the server's, not the database's
		begin, prepare, finish := []string{"BEGIN"}, []string{"PREPARE TRANSACTION " + id}, end+" PREPARED "+id
		if n.database == "mysql" {
			begin, prepare, finish = []string{"XA START " + id}, []string{"XA END " + id, "XA PREPARE " + id}, "XA "+end+" "+id
		}
		for _, text := range begin {
			n.exec(s, text)
		}
		ids := n.write(s, "prepared", 2)
		for _, text := range prepare {
			n.exec(s, text)
		}
		between := n.publish(n.other(), 3)
		n.await("what others committed arrives beside a prepared transaction", func() bool { return n.arrived(between) })
		n.exec(s, finish)
		n.commits("prepared", ids, end == "ROLLBACK")
	}
}

// update changes rows that wait, or are in flight.
func (n *neighbour) update() {
	ids := n.publish(n.other(), 5)
	n.exec(n.db, "UPDATE "+n.table+" SET "+n.payload+" = "+n.payload+n.where(ids[1:]...))
}

// remove deletes rows, of which those in flight may still arrive.
func (n *neighbour) remove() {
	ids := n.publish(n.other(), 5)
	n.exec(n.db, "DELETE FROM "+n.table+n.where(ids[1:3]...))
	n.withdraw(func(r *expected) bool { return slices.Contains(ids[1:3], r.id) })
}

// truncate removes all rows.
func (n *neighbour) truncate() {
	n.publish(n.other(), 5)
	if n.database == "sqlite" {
		n.exec(n.db, "DELETE FROM "+n.table)
	} else {
		n.exec(n.db, "TRUNCATE "+n.table)
	}
	n.withdraw(func(*expected) bool { return true })
}

// alter adds a column, and takes it away.
func (n *neighbour) alter() {
	n.exec(n.db, "ALTER TABLE "+n.table+" ADD COLUMN neighbour integer")
	n.publish(n.other(), 3)
	n.exec(n.db, "ALTER TABLE "+n.table+" DROP COLUMN neighbour")
}

// rename has the table away for a moment: what is settled then may come again.
func (n *neighbour) rename() {
	n.repeated = true
	n.publish(n.other(), 5)
	n.exec(n.db, "ALTER TABLE "+n.table+" RENAME TO elsewhere")
	time.Sleep(time.Duration(n.random.IntN(300)) * time.Millisecond)
	n.exec(n.db, "ALTER TABLE elsewhere RENAME TO "+n.table)
}

// lockRow keeps the lock of a row that is being delivered. Rows of other groups are delivered and settled all the same.
func (n *neighbour) lockRow() {
	gate := make(chan struct{})
	id := n.ids(1)[0]
	n.with(func() { n.gates[id] = gate })
	n.exec(n.db, fmt.Sprintf(n.insert, id, "locked"))
	n.commits("locked", []string{id}, false)
	n.await("the row is in flight", func() (begun bool) { n.with(func() { begun = n.tried[id] > 0 }); return begun })
	s := n.session()
	n.exec(s, "BEGIN")
	n.exec(s, "SELECT 1 FROM "+n.table+n.where(id)+" FOR UPDATE")
	n.with(func() { delete(n.gates, id) })
	close(gate)
	ids := append(n.publish("beside 1", 5), n.publish("beside 2", 5)...)
	n.await("rows beside a locked one are settled", func() bool { return n.count(n.done, ids...) == len(ids) })
	n.exec(s, "ROLLBACK")
	n.await("the locked row is settled after that", func() bool { return n.count(n.done, id) == 1 })
}

// hurry makes a row due that has failed, an hour before its time.
func (n *neighbour) hurry() {
	id := n.ids(1)[0]
	n.refusing(id, errNeighbour)
	n.exec(n.db, fmt.Sprintf(n.insert, id, "hurried"))
	n.commits("hurried", []string{id}, false)
	n.await("the row is in backoff", func() bool { return n.count(n.failed, id) == 1 })
	n.refusing(id, nil)
	n.exec(n.db, "UPDATE "+n.table+" SET "+n.due+n.where(id))
	n.await("a row arrives that SQL made due", func() bool { return n.arrived([]string{id}) })
}

// kill has a row become dead.
func (n *neighbour) kill(group string) (id string) {
	id = n.ids(1)[0]
	n.refusing(id, outbox.Permanent(errNeighbour))
	n.exec(n.db, fmt.Sprintf(n.insert, id, group))
	n.rows = append(n.rows, expected{id: id, group: group, unordered: true})
	n.await("the row is dead", func() bool { return n.count(n.dead, id) == 1 })
	n.refusing(id, nil)
	return id
}

func (n *neighbour) change(action adapters.ParkedAction, id string) {
	n.Helper()
	var named string
	n.with(func() { named = n.named[id] })
	changed, err := n.op.ChangeParked(n.Context(), adapters.ParkedCommand{Action: action, Filter: adapters.ParkedFilter{Route: "all", ID: named}, By: "test"}, operate.RateLimit{})
	must(n.T, err)
	if changed != 1 {
		n.Errorf("%s of %s changed %d messages", action, id, changed)
	}
}

func (n *neighbour) redrive() {
	id := n.kill(n.other())
	n.publish(n.other(), 2)
	n.change(adapters.ParkedRedrive, id)
	n.await("a dead row arrives after a redrive", func() bool { return n.arrived([]string{id}) })
}

func (n *neighbour) purge() {
	id := n.kill(n.other())
	n.change(adapters.ParkedPurge, id)
	for i := range n.rows {
		n.rows[i].never = n.rows[i].never || n.rows[i].id == id // from now on
	}
}

func (n *neighbour) pauseRoute() {
	_, err := n.op.Pause(n.Context(), adapters.Pause{Route: "all", By: "test"})
	must(n.T, err)
	n.publish(n.other(), 3)
	time.Sleep(time.Duration(n.random.IntN(800)) * time.Millisecond)
	n.publish(n.other(), 3)
	_, err = n.op.Resume(n.Context(), adapters.Pause{Route: "all", By: "test"})
	must(n.T, err)
}

// resumeBehindALock resumes a group while a lock has a read of the table wait, behind which there is more of the group.
func (n *neighbour) resumeBehindALock() {
	group := fmt.Sprint("paused ", n.random.Uint32())
	named := fmt.Sprintf(n.group, group)
	_, err := n.op.Pause(n.Context(), adapters.Pause{Route: "all", Group: named, By: "test"})
	must(n.T, err)
	time.Sleep(noticed)
	n.publish(group, 5)
	ids := n.publish(n.other(), 1)
	n.await("a read passes the paused group", func() bool { return n.arrived(ids) })
	s := n.session()
	lock := map[string][2]string{
		"postgres": {"BEGIN; LOCK TABLE " + n.table + " IN ACCESS EXCLUSIVE MODE", "COMMIT"},
		"mysql":    {"LOCK TABLES " + n.table + " WRITE", "UNLOCK TABLES"},
		"sqlite":   {"BEGIN EXCLUSIVE", "COMMIT"},
	}[n.database]
	n.exec(s, lock[0])
	later := n.write(s, group, 3)
	time.Sleep(time.Duration(100+n.random.IntN(300)) * time.Millisecond)
	resumed := make(chan error, 1)
	go func() { // SQLite has one lock for the table and the pauses
		_, err := n.op.Resume(n.Context(), adapters.Pause{Route: "all", Group: named, By: "test"})
		resumed <- err
	}()
	time.Sleep(noticed + time.Duration(n.random.IntN(300))*time.Millisecond)
	n.exec(s, lock[1])
	must(n.T, <-resumed)
	n.commits(group, later, false)
	n.await("the group arrives", func() bool { return n.arrived(later) })
}

func (n *neighbour) reload() {
	n.publish(n.other(), 3)
	must(n.T, n.relay.Reload(n.Context(), n.config()))
}

func (n *neighbour) restart() {
	n.publish(n.other(), 3)
	n.stop()
	n.publish(n.other(), 3)
	n.start()
}

// seek has the route begin again.
func (n *neighbour) seek() {
	n.repeated = true
	plan, err := n.op.PlanSeek(n.Context(), "all", operate.Target{Start: adapters.Start{Kind: adapters.StartBeginning}})
	must(n.T, err)
	must(n.T, n.op.Relocate(n.Context(), plan, "test"))
}

// endHot ends transactions of the hot path in ways that the client does not see.
func (n *neighbour) endHot() {
	prepared := fmt.Sprintf("PREPARED 'h%d'", rand.Uint64())
	for _, end := range [][]string{
		{"ROLLBACK"}, {"ROLLBACK AND CHAIN"}, {"ROLLBACK", "BEGIN"}, {strings.Replace(prepared, "PREPARED", "PREPARE TRANSACTION", 1)}, {"DELETE FROM {t} WHERE {k} = '{id}'"}, {},
	} {
		id, group := n.ids(1)[0], fmt.Sprint("hot ", n.random.Uint32())
		b := outbox.New("jobs").ID(id).JSON(map[string]string{"id": id})
		if n.layout == "outrider" {
			b = b.Group(group)
		} else {
			b = b.Aggregate("User", group)
		}
		e, err := b.Build()
		must(n.T, err)
		err = outbox.InTx(n.Context(), n.pool, func(ctx context.Context, tx pgx.Tx) error {
			if err := n.client.Publish(ctx, tx, e); err != nil {
				return err
			}
			for _, text := range end {
				if _, err := tx.Exec(ctx, strings.NewReplacer("{t}", n.table, "{k}", n.key, "{id}", id).Replace(text)); err != nil {
					return err
				}
			}
			return nil
		})
		if len(end) == 0 {
			must(n.T, err)
		} else if err == nil && end[0] == "ROLLBACK" {
			n.Error("InTx reports no error of a transaction that was rolled back")
		}
		n.commits(group, []string{id}, len(end) > 0)
		ids := n.publish(n.other(), 1)
		n.await("what is committed next arrives", func() bool { return n.arrived(ids) })
		if len(end) > 0 && end[0][0] == 'P' {
			n.exec(n.db, "ROLLBACK "+prepared)
		}
	}
}
