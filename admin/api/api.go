package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/outriderhq/outrider/admin"
)

// Prefix begins the paths of this version.
const Prefix = "/api/v1"

// New returns the handler of everything below [Prefix]. The server in front of it says who
// calls ([admin.CallerOf]).
func New(c *admin.Console) http.Handler {
	mux := http.NewServeMux()
	s := &service{console: c, huma: humago.New(mux, settings())}
	s.register()
	document, err := json.MarshalIndent(s.huma.OpenAPI(), "", "  ")
	mux.HandleFunc("GET "+Prefix+"/openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		if err != nil { // the types cannot fail to encode
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/openapi+json")
		_, _ = w.Write(document) // the client may have gone
	})
	return problems(mux)
}

// Document is the OpenAPI document of the API.
func Document() ([]byte, error) {
	s := &service{huma: humago.New(http.NewServeMux(), settings())}
	s.register()
	return json.MarshalIndent(s.huma.OpenAPI(), "", "  ")
}

// settings are huma's, without its pages and without links to schemas in answers.
func settings() huma.Config {
	cfg := huma.DefaultConfig("Outrider admin API", "1")
	cfg.OpenAPIPath, cfg.DocsPath, cfg.SchemasPath, cfg.CreateHooks = "", "", "", nil
	cfg.Info.Description = "What the command line tool shows and does, of a running relay. Errors are RFC 9457 problems. " +
		"Lists are paged: pass `next` of one page as `after` of the next."
	cfg.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer",
		Description: "A token of admin.tokens_file (read), operate_tokens_file (operate) or admin_tokens_file (admin)."}}
	cfg.Security = []map[string][]string{{"token": {}}, {}}
	return cfg
}

// service has the handlers.
type service struct {
	console *admin.Console
	huma    huma.API
}

// operation describes an operation of a role.
func operation(role admin.Role, method, path, id, summary string) huma.Operation {
	op := huma.Operation{
		OperationID: id, Method: method, Path: Prefix + path, Summary: summary, Description: "Role: " + role.String() + ".",
		Errors: []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusUnprocessableEntity,
			http.StatusInternalServerError, http.StatusServiceUnavailable},
		Metadata: map[string]any{"role": role},
	}
	if method == http.MethodPost {
		op.Errors = append(op.Errors, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	if strings.Contains(path, "{") || strings.HasPrefix(path, "/parked") || path == "/failures" {
		op.Errors = append(op.Errors, http.StatusNotFound)
	}
	return op
}

// add registers an operation, for callers of its role.
func add[I, O any](s *service, op huma.Operation, f func(context.Context, *I) (*O, error)) {
	need, _ := op.Metadata["role"].(admin.Role)
	allowed := func(ctx huma.Context, next func(huma.Context)) {
		if who := admin.CallerOf(ctx.Context()); who.Role < need {
			_ = huma.WriteErr(s.huma, ctx, http.StatusForbidden, fmt.Sprintf("this needs the role %s, and the caller has %s", need, who.Role))
			return
		}
		next(ctx)
	}
	op.Middlewares = append(huma.Middlewares{allowed}, op.Middlewares...)
	huma.Register(s.huma, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := f(ctx, in)
		if op.Method == http.MethodPost {
			s.console.Changed()
		}
		return out, problem(err)
	})
}

func (s *service) register() {
	s.registerState()
	s.registerParked()
	s.registerChanges()
}

// problem makes a problem of an error, once.
func problem(err error) error {
	var known huma.StatusError
	if err == nil || errors.As(err, &known) {
		return err
	}
	return huma.NewError(admin.StatusOf(err), err.Error())
}

// invalid is a problem with what the caller sent.
func invalid(format string, args ...any) error {
	return huma.NewError(http.StatusUnprocessableEntity, fmt.Sprintf(format, args...))
}

// checkText refuses what no database keeps; pairs are names and values.
func checkText(pairs ...string) error {
	for i := 0; i+1 < len(pairs); i += 2 {
		if text := pairs[i+1]; !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && r != '\t' && unicode.IsControl(r) }) {
			return invalid("%s has control characters, or is not UTF-8", pairs[i])
		}
	}
	return nil
}

// known refuses a route that neither the configuration nor the state has.
func known(ctx context.Context, op *admin.Operator, route string) error {
	ok, err := op.Knows(ctx, route)
	if err != nil || ok {
		return err
	}
	return huma.NewError(http.StatusNotFound, fmt.Sprintf("there is no route %q", route))
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
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(refusal.status)
		_ = json.NewEncoder(w).Encode(huma.ErrorModel{Status: refusal.status, Title: http.StatusText(refusal.status), // the client may have gone
			Detail: "see " + Prefix + "/openapi.json for what there is"})
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
