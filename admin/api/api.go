package api

import (
	"context"
	_ "embed"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/outriderhq/outrider/admin/action"
	"github.com/outriderhq/outrider/admin/console"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/admin/server"
)

// Prefix begins the paths of this version.
const Prefix = "/api/v1"

// document is the OpenAPI document; a test makes it from the operations and their types.
//
//go:embed openapi.json
var document []byte

// New returns the handler of everything below [Prefix]. The server in front of it says who
// calls ([operate.CallerOf]).
func New(c *console.Console) http.Handler {
	s := newService(c)
	mux := http.NewServeMux()
	for _, op := range s.operations {
		mux.Handle(op.method+" "+Prefix+op.path, op)
	}
	mux.HandleFunc("GET "+Prefix+"/openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/openapi+json")
		_, _ = w.Write(document) // the client may have gone
	})
	return problems(mux)
}

// service has the operations.
type service struct {
	console    *console.Console
	operations []*operation
}

func newService(c *console.Console) *service {
	s := &service{console: c}
	s.addState()
	s.addParked()
	s.addChanges()
	s.addOperations()
	s.addMaintenance()
	s.addRepair()
	return s
}

// operation is one operation of the API.
type operation struct {
	role                      operate.Role // that callers need
	method, path, id, summary string
	in, out                   reflect.Type // what describes parameters and body, and the answer

	before func(http.ResponseWriter) // called for callers that may; optional
	call   func(r *http.Request) (any, error)
}

// get describes an operation that only reads.
func get(path, id, summary string) operation {
	return operation{role: operate.RoleRead, method: http.MethodGet, path: path, id: id, summary: summary}
}

// act describes the operation of an action.
func act(name, path string) operation {
	a := action.Named(name)
	return operation{role: a.Role, method: http.MethodPost, path: path, id: name, summary: a.Summary}
}

// add adds an operation. The fields of I with the tags path and query are its parameters, and
// its field Body is the body; so is that of O.
func add[I, O any](s *service, op operation, f func(context.Context, *I) (*O, error)) {
	op.in, op.out = reflect.TypeFor[I](), reflect.TypeFor[O]()
	op.call = func(r *http.Request) (any, error) {
		in := new(I)
		if err := decode(r, reflect.ValueOf(in).Elem()); err != nil {
			return nil, err
		}
		out, err := f(r.Context(), in)
		if r.Method != http.MethodGet {
			s.console.Changed()
		}
		if err != nil {
			return nil, err
		}
		return reflect.ValueOf(out).Elem().FieldByName("Body").Interface(), nil
	}
	s.operations = append(s.operations, &op)
}

// ServeHTTP implements [http.Handler].
func (op *operation) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if who := operate.CallerOf(r.Context()); who.Role < op.role {
		refuse(w, server.Failed(http.StatusForbidden, "this needs the role %s, and the caller has %s: %s", op.role, who.Role, who.HowToGet(op.role)))
		return
	}
	if op.before != nil {
		op.before(w)
	}
	out, err := op.call(r)
	if err == nil {
		var body []byte
		if body, err = json.Marshal(out); err == nil {
			w.Header().Set("Content-Type", "application/json")
			if r.Method == http.MethodGet && server.Unchanged(w, r, body) {
				return
			}
			_, _ = w.Write(body) // the client may have gone
			return
		}
	}
	refuse(w, err)
}

// invalid is a problem with what the caller sent.
func invalid(format string, args ...any) error {
	return server.Failed(http.StatusUnprocessableEntity, format, args...)
}

// refuse answers with an error.
func refuse(w http.ResponseWriter, err error) {
	status := server.StatusOf(err)
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(Problem{status, http.StatusText(status), err.Error()}) // the client may have gone
}

// problems answers paths and methods that no operation has with problems, too.
func problems(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		refusal := &refusal{header: w.Header(), status: http.StatusOK}
		h.ServeHTTP(refusal, r)
		refuse(w, server.Failed(refusal.status, "see %s/openapi.json for what there is", Prefix))
	})
}

// refusal keeps the status of an answer and drops its text.
type refusal struct {
	header http.Header
	status int
}

func (r *refusal) Header() http.Header         { return r.header }
func (r *refusal) Write(b []byte) (int, error) { return len(b), nil }
func (r *refusal) WriteHeader(status int)      { r.status = status }

// checkText refuses what no database keeps; pairs are names and values.
func checkText(pairs ...string) error {
	for i := 0; i+1 < len(pairs); i += 2 {
		if text := pairs[i+1]; !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && r != '\t' && unicode.IsControl(r) }) {
			return invalid("%s has control characters, or is not UTF-8", pairs[i])
		}
	}
	return nil
}

// Problem is an error as RFC 9457 has it.
type Problem struct {
	Status int    `json:"status"`
	Title  string `json:"title"`
	Detail string `json:"detail"`
}
