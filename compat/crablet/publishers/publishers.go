package publishers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/console"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/admin/server"
)

// Prefix begins the paths.
const Prefix = "/api/outbox"

// DefaultTopic is the topic of requests that name none, if it has what they are about.
const DefaultTopic = "default"

// Status is a publisher as Crablet has it.
type Status struct {
	Topic           string  `json:"topic,omitempty"` // in lists of several topics, which Crablet does not have
	PublisherName   string  `json:"publisherName"`
	Status          string  `json:"status"`
	LastPosition    int64   `json:"lastPosition"`
	LastPublishedAt *string `json:"lastPublishedAt"` // null: never
	ErrorCount      int     `json:"errorCount"`
	LastError       *string `json:"lastError"`
	UpdatedAt       string  `json:"updatedAt"`
	Active          bool    `json:"active"`
	Paused          bool    `json:"paused"`
	Failed          bool    `json:"failed"`
}

// Backoff is how long a publisher has found nothing, as Crablet has it.
type Backoff struct {
	EmptyPollCount     int64 `json:"emptyPollCount"`     // polls in a row that found nothing
	CurrentSkipCounter int64 `json:"currentSkipCounter"` // polls of the usual interval that are left out before the next one
	BackedOff          bool  `json:"backedOff"`
}

// service answers for a relay.
type service struct{ console *console.Console }

// New returns the handler of everything below [Prefix].
func New(c *console.Console) http.Handler {
	s := &service{c}
	mux := http.NewServeMux()
	get := func(path string, f func(*http.Request) (any, error)) {
		mux.Handle("GET "+Prefix+path, handler{operate.RoleRead, f})
	}
	order := func(what, status string, reset bool) {
		mux.Handle("POST "+Prefix+"/publishers/{publisher}/"+what, handler{operate.RoleOperate, func(r *http.Request) (any, error) {
			return nil, s.order(r, status, reset)
		}})
	}
	get("/publishers", s.list)
	get("/publishers/{publisher}", s.one)
	order("pause", adapters.ProgressPaused, false)
	order("resume", adapters.ProgressActive, false)
	order("reset", adapters.ProgressActive, true)
	get("/publishers/lag", s.lag)
	get("/publishers/leaders", s.leaders)
	get("/publishers/backoff", s.backoffs)
	get("/publishers/{topic}/{publisher}/backoff", s.backoff)
	return mux
}

// errNotFound answers with 404 and no body, as Crablet does.
var errNotFound = errors.New("there is no such publisher")

// errSeveral begins the error for a publisher that several topics have.
var errSeveral = errors.New("several topics have a publisher")

// handler answers a request of callers with a role.
type handler struct {
	role operate.Role
	call func(*http.Request) (any, error)
}

// ServeHTTP implements [http.Handler].
func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if who := operate.CallerOf(r.Context()); who.Role < h.role {
		refuse(w, http.StatusForbidden, fmt.Sprintf("this needs the role %s, and the caller has %s", h.role, who.Role))
		return
	}
	if topic := topicOf(r); !utf8.ValidString(topic+r.PathValue("publisher")) || strings.ContainsRune(topic+r.PathValue("publisher"), 0) {
		w.WriteHeader(http.StatusNotFound) // no database keeps such a name
		return
	}
	out, err := h.call(r)
	switch {
	case errors.Is(err, errNotFound):
		w.WriteHeader(http.StatusNotFound)
	case errors.Is(err, errSeveral):
		refuse(w, http.StatusConflict, err.Error())
	case errors.Is(err, operate.ErrNoProgress):
		refuse(w, http.StatusNotFound, err.Error())
	case err != nil:
		refuse(w, server.StatusOf(err), err.Error())
	case out != nil:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(out) // the client may have gone
	}
}

// refuse answers with an error.
func refuse(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"status": status, "title": http.StatusText(status), "detail": detail}) // the client may have gone
}

// topicOf is the topic that a request names; "": none.
func topicOf(r *http.Request) string { return cmp.Or(r.PathValue("topic"), r.URL.Query().Get("topic")) }

// rows are the rows that a request is about, those of its publisher if the path names one: of the topic that it names or, without one, of
// [DefaultTopic] and, if that has none, of all topics.
func (s *service) rows(r *http.Request) (rows []adapters.Progress, err error) {
	err = s.use(r.Context(), func(op *operate.Operator) error {
		rows, err = op.Publishers(r.Context(), topicOf(r))
		return err
	})
	if publisher := r.PathValue("publisher"); publisher != "" {
		rows = slices.DeleteFunc(rows, func(p adapters.Progress) bool { return p.Publisher != publisher })
	}
	inDefault := func(p adapters.Progress) bool { return p.Topic == DefaultTopic }
	if topicOf(r) == "" && slices.ContainsFunc(rows, inDefault) {
		rows = slices.DeleteFunc(rows, func(p adapters.Progress) bool { return !inDefault(p) })
	}
	return rows, err
}

func (s *service) use(ctx context.Context, f func(*operate.Operator) error) error {
	return s.console.Use(ctx, f)
}

func (s *service) list(r *http.Request) (any, error) {
	rows, err := s.rows(r)
	out := []Status{}
	for i := range rows {
		status := statusOf(&rows[i])
		if topicOf(r) == "" && rows[i].Topic != DefaultTopic {
			status.Topic = rows[i].Topic
		}
		out = append(out, status)
	}
	return out, err
}

func (s *service) one(r *http.Request) (any, error) {
	p, err := s.find(r)
	if err != nil {
		return nil, err
	}
	return statusOf(p), nil
}

// find returns the row of the publisher of a request.
func (s *service) find(r *http.Request) (*adapters.Progress, error) {
	rows, err := s.rows(r)
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, errNotFound
	}
	topics := map[string]bool{}
	for i := range rows {
		topics[rows[i].Topic] = true
	}
	if len(topics) > 1 {
		return nil, fmt.Errorf("%w %s: %s; add ?topic=NAME", errSeveral, rows[0].Publisher, strings.Join(slices.Sorted(maps.Keys(topics)), ", "))
	}
	return &rows[0], nil
}

// order writes a status, which running relays carry out.
func (s *service) order(r *http.Request, status string, reset bool) error {
	p, err := s.find(r)
	if err != nil {
		return err
	}
	return s.use(r.Context(), func(op *operate.Operator) error {
		found, err := op.OrderPublisher(r.Context(), p.Topic, p.Publisher, status, reset, operate.CallerOf(r.Context()).Author(""))
		if err == nil && !found {
			return errNotFound
		}
		s.console.Changed()
		return err
	})
}

func (s *service) lag(r *http.Request) (any, error) {
	rows, err := s.rows(r)
	if err != nil {
		return nil, err
	}
	out := map[string]int64{}
	err = s.use(r.Context(), func(op *operate.Operator) error {
		lags, err := op.PublisherLags(r.Context(), topicOf(r))
		for _, l := range lags {
			if slices.ContainsFunc(rows, func(p adapters.Progress) bool { return p.Topic == l.Topic && p.Publisher == l.Publisher }) {
				out[keyOf(rows, l.Topic, l.Publisher)] = l.Behind
			}
		}
		return err
	})
	return out, err
}

// keyOf is the key of a row in an answer: the publisher, or topic:publisher where several topics have one of that name.
func keyOf(rows []adapters.Progress, topic, publisher string) string {
	if slices.ContainsFunc(rows, func(p adapters.Progress) bool { return p.Publisher == publisher && p.Topic != topic }) {
		return topic + ":" + publisher
	}
	return publisher
}

func (s *service) leaders(r *http.Request) (any, error) {
	rows, err := s.rows(r)
	out := map[string]string{}
	for i := range rows {
		if p := &rows[i]; p.Leader != "" {
			out[keyOf(rows, p.Topic, p.Publisher)] = p.Leader
		}
	}
	return out, err
}

// backoffs are those of all topics that this process works, or stands by for.
func (s *service) backoffs(*http.Request) (any, error) {
	out := map[string]Backoff{}
	for _, p := range s.console.PublisherStats() {
		out[p.Topic+":"+p.Publisher] = backoffOf(&p, time.Now())
	}
	return out, nil
}

func (s *service) backoff(r *http.Request) (any, error) {
	for _, p := range s.console.PublisherStats() {
		if p.Topic == r.PathValue("topic") && p.Publisher == r.PathValue("publisher") {
			return backoffOf(&p, time.Now()), nil
		}
	}
	return nil, errNotFound
}

// backoffOf counts the pause before the next poll in intervals, as Crablet does.
func backoffOf(p *console.PublisherStats, now time.Time) Backoff {
	b := Backoff{EmptyPollCount: p.EmptyPolls}
	if left := p.NextPoll.Sub(now); p.Pause > 0 && left > 0 && !p.NextPoll.IsZero() {
		b.CurrentSkipCounter = int64(left / p.Pause)
	}
	b.BackedOff = b.CurrentSkipCounter > 0
	return b
}

// statusOf is a row as Crablet answers it.
func statusOf(p *adapters.Progress) Status {
	s := Status{PublisherName: p.Publisher, Status: p.Status, LastPosition: p.Position, ErrorCount: p.Errors, UpdatedAt: instant(p.UpdatedAt),
		Active: p.Status == adapters.ProgressActive, Paused: p.Status == adapters.ProgressPaused, Failed: p.Status == adapters.ProgressFailed}
	if !p.PublishedAt.IsZero() {
		at := instant(p.PublishedAt)
		s.LastPublishedAt = &at
	}
	if p.LastError != "" {
		s.LastError = &p.LastError
	}
	return s
}

// instant is a time as Java's Instant writes it: UTC, with no fraction, 3 or 6 digits of it.
func instant(at time.Time) string {
	at = at.UTC()
	switch micros := at.Nanosecond() / 1000; {
	case micros == 0:
		return at.Format("2006-01-02T15:04:05Z")
	case micros%1000 == 0:
		return at.Format("2006-01-02T15:04:05.000Z")
	}
	return at.Format("2006-01-02T15:04:05.000000Z")
}
