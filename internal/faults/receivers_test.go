package faults_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/outriderhq/outrider/internal/faults/check"
	"github.com/outriderhq/outrider/internal/testenv"
)

// misbehaviour is how a receiver treats the first request of a message that it
// does not like. It gets what the request brought, and answers if it wants to.
type misbehaviour func(r *receiver, w http.ResponseWriter, req *http.Request, batch []payload)

// patienceOfRelay is its timeout for a request where the receiver is to exceed
// it; elsewhere it is so long that no busy machine exceeds it.
const patienceOfRelay = time.Second

// misbehaviours are failures of receivers, and whether they may cause duplicates.
var misbehaviours = map[string]struct {
	do      misbehaviour
	unknown bool // the relay cannot know whether the receiver took it
	patient bool // nothing is to take longer than the relay waits
}{
	"hangs until the relay gives up": {func(_ *receiver, _ http.ResponseWriter, req *http.Request, _ []payload) {
		<-req.Context().Done()
	}, false, false},
	"resets the connection": {func(_ *receiver, w http.ResponseWriter, _ *http.Request, _ []payload) {
		hangUp(w, "")
	}, false, true},
	"takes it and resets the connection": {func(r *receiver, w http.ResponseWriter, _ *http.Request, batch []payload) {
		r.take(batch)
		hangUp(w, "")
	}, true, true},
	"answers slowly, byte by byte": {func(r *receiver, w http.ResponseWriter, req *http.Request, batch []payload) {
		r.take(batch)
		for range 8 {
			_, _ = io.WriteString(w, " ")
			_ = http.NewResponseController(w).Flush()
			pause(req.Context(), patienceOfRelay/20)
		}
	}, false, true},
	"answers 500, then 200": {func(_ *receiver, w http.ResponseWriter, _ *http.Request, _ []payload) {
		w.WriteHeader(http.StatusInternalServerError)
	}, false, true},
	"answers 503, then 200": {func(_ *receiver, w http.ResponseWriter, _ *http.Request, _ []payload) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}, false, true},
	"answers 200 with a body that is cut off": {func(r *receiver, w http.ResponseWriter, _ *http.Request, batch []payload) {
		r.take(batch)
		hangUp(w, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\nContent-Type: application/json\r\n\r\n{\"half\": ")
	}, true, true},
	"answers 200 with a body that is no JSON": {func(r *receiver, w http.ResponseWriter, _ *http.Request, batch []payload) {
		r.take(batch)
		_, _ = io.WriteString(w, "<html>\x00")
	}, false, true},
	"answers what is no HTTP": {func(_ *receiver, w http.ResponseWriter, _ *http.Request, _ []payload) {
		hangUp(w, "220 mail.example.com ESMTP\r\n")
	}, false, true},
	"takes it and answers after the timeout": {func(r *receiver, w http.ResponseWriter, req *http.Request, batch []payload) {
		r.take(batch)
		pause(req.Context(), 2*patienceOfRelay)
		w.WriteHeader(http.StatusOK)
	}, true, false},
}

// hangUp writes raw bytes and resets the connection.
func hangUp(w http.ResponseWriter, text string) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return // the relay was first
	}
	_, _ = io.WriteString(conn, text)
	if tcp, ok := conn.(*net.TCPConn); ok && text == "" {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// moody is a receiver that misbehaves when messages of some groups come for the
// first time.
func moody(t *testing.T, do misbehaviour) (r *receiver, faults func() int) {
	t.Helper()
	var mu sync.Mutex
	seen := map[string]bool{}
	n := 0
	r = receiveWith(t, func(r *receiver, w http.ResponseWriter, req *http.Request) {
		batch, err := payloads(req.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest) // cut off
			return
		}
		mu.Lock()
		fault := false
		for _, p := range batch {
			fault = fault || !seen[p.ID] && p.Group[len(p.Group)-1] == '7'
			seen[p.ID] = true
		}
		if fault {
			n++
		}
		mu.Unlock()
		if fault {
			do(r, w, req, batch)
			return
		}
		r.take(batch)
	})
	return r, func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

// payloads reads a request of one message or of several.
func payloads(body io.Reader) ([]payload, error) {
	text, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	var batch []payload
	if json.Unmarshal(text, &batch) == nil {
		return batch, nil
	}
	var p payload
	err = json.Unmarshal(text, &p)
	return []payload{p}, err
}

// TestG1_G2_G3_ReceiversThatMisbehave has receivers fail in all ways. Every message
// arrives in order, and twice only where the outcome of a request is unknown.
func TestG1_G2_G3_ReceiversThatMisbehave(t *testing.T) {
	t.Parallel()
	testenv.Postgres(t) // skips without a server
	const groups = 40   // of which four fail
	messages := size(t, 3*groups, 100*groups)
	for name, m := range misbehaviours {
		for kind, described := range map[string]func(string) string{"http": toHTTP, "webhook": toWebhook} {
			t.Run(kind+" "+name, func(t *testing.T) {
				t.Parallel()
				db := newDatabase(t)
				to, faults := moody(t, m.do)
				db.fill(batch{n: messages, groups: groups})
				timeout := patienceOfRelay
				if m.patient {
					timeout *= 20
				}
				r := start(t, settings{
					database: db.url, top: quick, middleware: "[poison, {retry: {attempts: 20, base: 20ms, max: 100ms}}, timeout]",
					destination: described(to.url()+"/{{.Group}}") + fmt.Sprintf(", timeout: %v", timeout),
				}.text())
				r.until("delivered everything", func() bool { return to.arrived() >= messages })
				r.stop()
				report := check.Compare(db.rows(), to.all()...)
				tell(t, fmt.Sprintf("%s receiver %s, %d faults", kind, name, faults()), report, stopwatch{})
				if !report.Clean() || faults() == 0 || report.Duplicates > 0 && !m.unknown && m.patient {
					t.Errorf("%d faults, want some, and nothing lost, out of order, or repeated where the outcome is known: %v", faults(), report)
				}
				if n := db.parked("true"); n > 0 {
					t.Errorf("%d messages are parked", n)
				}
			})
		}
	}
}
