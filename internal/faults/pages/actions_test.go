package pages

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// Each action is done by clicks, and has its effect in the database.
func TestEveryActionByClick(t *testing.T) {
	t.Parallel()
	s := newScene(t, withToken(t), fmt.Sprintf(hooks, "crm", "crm")+fmt.Sprintf(hooks, "partners", "{{.Tenant}}/events"), `
  crm: {from: app, to: crm, match: {types: ["customer.*"]}, middleware: [{poison: {then: hold}}, {retry: {attempts: 1}}]}
  partners: {from: app, to: partners, match: {types: ["order.*"]}}
`)
	s.rule("bad", http.StatusUnprocessableEntity)
	s.rule("/acme/events", http.StatusGone)
	s.publish(event{"c-1", "customer.changed", "", "customer-1", `{"name": "bad"}`}, event{"c-2", "customer.changed", "", "customer-1", `{"name": "kind"}`},
		event{"o-1", "order.created", "globex", "order-1", `{"total": "bad"}`}, event{"o-2", "order.created", "acme", "order-2", `{"total": 7}`})
	b := newTab(t, s.base)
	b.until("a group is held, a message is dead", func() bool { return s.parked("crm", "held") == 1 && s.parked("partners", "dead") == 1 })

	t.Run("sign in", func(t *testing.T) {
		b.t = t
		b.open("/")
		b.see("Sign in")
		b.accessible("login")
		b.fill("token", adminToken)
		b.fill("name", "alice")
		b.click("Sign in")
		b.see("admin · alice", "routes need attention")
		if shown := eval[string](b, "document.cookie"); shown != "" {
			t.Errorf("scripts see the cookie %s", shown)
		}
	})
	t.Run("pause and resume a route", func(t *testing.T) {
		b.t = t
		b.open("/route/crm")
		b.fill("reason", "CRM upgrade")
		b.click("Pause crm")
		b.see("Paused route crm", "It has been paused since", "CRM upgrade")
		if n := s.count(`SELECT count(*) FROM outrider_pause WHERE route = 'crm' AND address = '' AND reason = 'CRM upgrade'`); n != 1 {
			t.Errorf("%d pauses", n)
		}
		b.click("Resume crm")
		b.see("Resumed route crm")
		if n := s.count(`SELECT count(*) FROM outrider_pause WHERE route = 'crm'`); n != 0 {
			t.Errorf("%d pauses are left", n)
		}
	})
	t.Run("resume an address", func(t *testing.T) {
		b.t = t
		b.seeAt("/destinations", "/acme/events", "410")
		s.rule("/acme/events", 0)
		b.click("Resume this address")
		b.see("Resumed address")
		b.until("its message arrived", func() bool { return s.taken("/acme/events") == 1 })
	})
	t.Run("retry and skip a group", func(t *testing.T) {
		b.t = t
		b.seeAt("/groups", "customer-1", "1 waiting behind it", "unknown currency")
		b.click("Retry…")
		b.see("1 message", "Redrive 1 message")
		b.click("Redrive 1 message")
		b.see("Redrove 1 message")
		b.until("it is held again", func() bool {
			return s.parked("crm", "held") == 1 && s.count(`SELECT count(*) FROM outrider_audit WHERE action = 'redrive'`) == 1
		})
		b.seeAt("/groups", "Skip…")
		b.click("Skip…")
		b.see("This cannot be undone")
		b.click("Skip 1 message")
		b.see("Skipped 1 message")
		b.until("its follower arrived", func() bool { return s.taken("/crm") == 1 && s.parked("crm", "held") == 0 })
	})
	t.Run("redrive and purge by a filter", func(t *testing.T) {
		b.t = t
		b.open("/parked?route=partners&status=dead")
		b.see("o-1", "route: partners")
		b.click("Redrive…")
		b.click("Redrive 1 message")
		b.see("Redrove 1 message")
		b.until("it is dead again", func() bool {
			return s.count(`SELECT count(*) FROM outrider_audit WHERE action = 'redrive'`) == 2 && s.parked("partners", "dead") == 1
		})
		b.seeAt("/parked?route=partners&status=dead", "o-1")
		b.click("o-1")
		b.see("***", "order-1")
		if strings.Contains(b.text(), `"bad"`) {
			t.Error("the payload is shown unasked")
		}
		b.click("Show the values")
		b.see(`"total": "bad"`)
		b.click("Purge…")
		b.see("deleted", "This cannot be undone")
		b.click("Purge 1 message")
		b.see("Purged 1 message")
		if n := s.parked("partners", "dead"); n != 0 {
			t.Errorf("%d dead messages are left", n)
		}
	})
	t.Run("seek", func(t *testing.T) {
		b.t = t
		before := s.taken("/globex/events") + s.taken("/acme/events")
		s.rule("bad", 0)
		b.open("/route/partners")
		b.fill("to", "beginning")
		b.click("Look at it first")
		b.see("2 rows", "2 settled rows will be delivered again")
		b.click("Seek to")
		b.see("continues at")
		b.until("the rows arrive again", func() bool { return s.taken("/globex/events")+s.taken("/acme/events") == before+2 })
	})
	t.Run("seek many routes", func(t *testing.T) {
		b.t = t
		before := s.taken("/globex/events") + s.taken("/acme/events")
		b.open("/operations")
		b.accessible("operations with the form")
		b.fill("routes", "partn*, nothing-like-it")
		b.fill("to", "beginning")
		b.click("Look at it first")
		b.see("1 route", "partners", "cannot be taken back")
		b.click("Seek 1 route")
		b.see("Started the operation seek of 1 route")
		b.until("the rows arrive again", func() bool { return s.taken("/globex/events")+s.taken("/acme/events") == before+2 })
		b.open("/operations")
		b.fill("routes", "nothing")
		b.fill("to", "end")
		b.click("Look at it first")
		b.see("nothing", "crm", "partners") // which routes there are
		b.until("the operation is done", func() bool { return s.count(`SELECT count(*) FROM outrider_operation WHERE state = 'done'`) == 1 })
	})
	t.Run("an operation", func(t *testing.T) {
		b.t = t
		conn := s.connect()
		_, err := conn.Exec(t.Context(), `INSERT INTO outrider_parked (route, slot, seq, status, attempts, last_error, parked_at, event_id, event_type, metadata, payload, position)
			SELECT 'partners', 3, 100000 + n, 'dead', 1, 'was refused', now() - interval '1 minute', 'bulk-' || n, 'order.created', '{}', '{}', 1 FROM generate_series(1, 1500) n`)
		must(t, err)
		b.open("/parked?route=partners&status=dead")
		b.click("Purge dead…")
		b.see("1,500 messages", "in the background")
		b.click("Purge 1,500 messages")
		b.see("Started the operation purge of 1,500 messages", "of 1,500")
		b.until("all are gone", func() bool { return s.parked("partners", "dead") == 0 })
		b.until("both operations are done", func() bool { return s.count(`SELECT count(*) FROM outrider_operation WHERE state = 'done'`) == 2 })
		b.seeAt("/operations", "done")
	})
	t.Run("reload and sign out", func(t *testing.T) {
		b.t = t
		b.reload()
		b.see("Reloaded: 2 routes")
		b.open("/audit")
		b.see("alice by dashboard", "purge", "seek", "pause")
		b.click("Sign out")
		b.see("Sign in")
		b.open("/audit")
		b.see("Sign in")
	})
	b.t = t
}
