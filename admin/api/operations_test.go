package api_test

import (
	"fmt"
	"net/http"
	"testing"
)

// created is the id of the one operation that an order became.
func (s *site) created(token, body string) string {
	s.t.Helper()
	answer := s.want(token, "POST", "/operations", body, `"state":"planned"`)
	made, _ := answer["operations"].([]any)
	if len(made) != 1 {
		s.t.Fatalf("order %s became %v", body, made)
	}
	return made[0].(map[string]any)["id"].(string)
}

// ended waits for the end of an operation and returns it.
func (s *site) ended(id string) (o map[string]any) {
	s.t.Helper()
	s.until("operation "+id+" has ended", func() bool {
		o = s.want("read", "GET", "/operations/"+id, "")
		return o["state"] == "done" || o["state"] == "failed"
	})
	return o
}

func testOperations(t *testing.T, s *site) {
	s.t = t
	const dead = parkedSQL + " WHERE status = 'dead'"
	const audited = `SELECT count(*) FROM outrider_audit WHERE action = '%s' AND CAST(filter AS text) LIKE '%%%s%%' AND by LIKE 'alice by API, token %%'`
	s.wrong.Store(true)
	for i := range 5 {
		s.publish(fmt.Sprintf("bad-o%d", i), `"bad"`)
	}
	s.until("five are dead", func() bool { return s.count(dead) == 5 })
	for _, c := range []struct {
		status            int
		token, path, body string
	}{
		{403, "read", "/operations", `{"kind": "redrive", "all": true}`}, {403, "operate", "/operations", `{"kind": "purge", "all": true}`},
		{403, "operate", "/operations", `{"kind": "seek", "routes": ["*"], "to": "end"}`}, {422, "admin", "/operations", `{"kind": "burn", "all": true}`},
		{422, "admin", "/operations", `{"kind": "redrive"}`}, {422, "admin", "/operations", `{"kind": "redrive", "all": true, "to": "end"}`},
		{422, "admin", "/operations", `{"kind": "redrive", "all": true, "rate": 0}`}, {422, "admin", "/operations", `{"kind": "seek", "to": "end"}`},
		{422, "admin", "/operations", `{"kind": "seek", "routes": ["*"], "to": "never"}`}, {422, "admin", "/operations", `{"kind": "seek", "routes": ["*"], "to": "end", "all": true}`},
		{404, "admin", "/operations", `{"kind": "seek", "routes": ["none-*"], "to": "end"}`}, {404, "admin", "/operations", `{"kind": "redrive", "route": "none"}`},
		{404, "admin", "/operations/none/stop", `{}`}, {404, "admin", "/operations/none/resume", `{}`},
	} {
		s.refused(c.status, c.token, "POST", c.path, c.body)
	}
	s.refused(http.StatusNotFound, "read", "GET", "/operations/none", "")
	s.want("operate", "POST", "/operations", `{"kind": "redrive", "type": "order.created", "dry_run": true}`, `"total":5`, `"operations":[]`, `"messages":5`)
	s.want("operate", "POST", "/operations", `{"kind": "redrive", "before": "9000-01-01T00:00:00Z", "dry_run": true}`, `"total":5`, `"messages":5`)
	s.want("operate", "POST", "/operations", `{"kind": "redrive", "type": "order.created", "before": "2020-01-01T00:00:00Z", "dry_run": true}`, `"total":0`)
	if n := s.count(`SELECT count(*) FROM outrider_operation`); n != 0 {
		t.Errorf("%d operations after a dry run and refused orders", n)
	}

	slow := s.created("admin", `{"kind": "purge", "all": true, "limit": 3, "rate": 1, "by": "alice"}`)
	s.until("the relay has begun", func() bool { return s.count(dead) < 5 })
	s.want("operate", "POST", "/operations/"+slow+"/stop", `{"by": "alice"}`, `"changed":true`, `"state":"stopped"`)
	stopped := 5 - s.count(dead)
	s.want("operate", "POST", "/operations/"+slow+"/stop", `{}`, `"changed":false`)
	s.refused(http.StatusForbidden, "operate", "POST", "/operations/"+slow+"/resume", `{}`)
	s.want("read", "GET", "/operations?active=true", "", `"items":[]`)
	if now := s.want("read", "GET", "/operations/"+slow, ""); now["done"] != float64(stopped) || s.count(dead) != 5-stopped {
		t.Errorf("stopped after %d: %v, and %d are left", stopped, now, s.count(dead))
	}
	s.want("admin", "POST", "/operations/"+slow+"/resume", `{"by": "alice"}`, `"changed":true`)
	if o := s.ended(slow); o["done"] != 3.0 || o["total"] != 3.0 || o["remaining"] != 0.0 || o["state"] != "done" || s.count(dead) != 2 {
		t.Errorf("the purge ended as %v, %d are left", o, s.count(dead))
	}
	if begin, end := s.count(fmt.Sprintf(audited, "purge", "begin")), s.count(fmt.Sprintf(audited, "purge", "done")); begin != 1 || end != 1 {
		t.Errorf("audited %d begins and %d ends", begin, end)
	}

	s.wrong.Store(false)
	took := s.took.Load()
	redrive := s.created("operate", `{"kind": "redrive", "error": "unknown customer", "before": "9000-01-01T00:00:00Z", "by": "alice"}`)
	if o := s.ended(redrive); o["done"] != 2.0 {
		t.Errorf("the redrive ended as %v", o)
	}
	s.until("both arrived", func() bool { return s.took.Load() == took+2 && s.count(parkedSQL) == 0 })
	page := s.want("read", "GET", "/operations?limit=1", "", `"id":"`+redrive, `"kind":"redrive"`, `"error":"unknown customer"`)
	s.want("read", "GET", "/operations?limit=1&after="+page["next"].(string), "", `"id":"`+slow)

	s.want("admin", "POST", "/operations", `{"kind": "seek", "routes": ["ord*"], "to": "beginning", "dry_run": true}`, `"routes":["orders"]`, `"total":1`)
	took = s.took.Load()
	if o := s.ended(s.created("admin", `{"kind": "seek", "routes": ["ord*"], "to": "beginning"}`)); o["done"] != 1.0 || o["failed"] != 0.0 {
		t.Errorf("the seek ended as %v", o)
	}
	s.until("all came again", func() bool { return s.took.Load() >= took+11 })
	if o := s.ended(s.created("admin", `{"kind": "seek", "routes": ["orders"], "to": "1000000"}`)); o["failed"] != 1.0 || o["error"] == nil {
		t.Errorf("a seek that cannot be ended as %v", o)
	}
}
