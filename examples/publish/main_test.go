package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/outriderhq/outrider/adapters/postgres/owntable"
	"github.com/outriderhq/outrider/internal/testenv"
)

// An order has an event, and a refused order has none.
func TestOrdersHaveEvents(t *testing.T) {
	s, err := newShop(t.Context(), testenv.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.pool.Close)
	if _, err := owntable.Init(t.Context(), s.pool, ""); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]int{"customer=heron&cents=1200": http.StatusCreated, "customer=heron&cents=-1": http.StatusBadRequest} {
		w := httptest.NewRecorder()
		s.handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/orders?"+query, http.NoBody))
		if w.Code != want {
			t.Errorf("%s: %d %s, want %d", query, w.Code, w.Body, want)
		}
	}
	var events, orders int
	if err := s.pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM outrider_outbox WHERE type = 'order.created' AND message_group = 'heron'), (SELECT count(*) FROM orders)`).
		Scan(&events, &orders); err != nil || events != 1 || orders != 1 {
		t.Errorf("%d events of %d orders, %v", events, orders, err)
	}
}
