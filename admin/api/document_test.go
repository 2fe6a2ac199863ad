package api

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/admin/status"
)

var update = flag.Bool("update", false, "write openapi.json anew")

// The document that the program serves is made from the operations and their types.
func TestTheDocumentIsCurrent(t *testing.T) {
	t.Parallel()
	d := describer{t: t, api: humago.New(http.NewServeMux(), settings()), left: map[string]*operation{}}
	for _, op := range newService(nil).operations {
		d.left[op.id] = op
	}
	describe[routesIn, list[RouteView]](&d, "list-routes")
	describe[RouteIn, one[RouteView]](&d, "get-route")
	describe[Page, list[SourceView]](&d, "list-sources")
	describe[Page, list[DestinationView]](&d, "list-destinations")
	describe[lanesIn, list[status.RouteStatus]](&d, "list-lanes")
	describe[Page, list[status.Member]](&d, "list-instances")
	describe[struct{}, one[ConfigView]](&d, "get-config")
	describe[auditIn, auditOut](&d, "list-audit")
	describe[parkedIn, parkedOut](&d, "list-parked")
	describe[messageIn, one[ParkedView]](&d, "get-parked")
	describe[failuresIn, failuresOut](&d, "list-failures")
	describe[eventIn, one[operate.Journey]](&d, "get-event")
	for _, id := range []string{"pause", "resume"} {
		describe[pauseIn, one[PauseResult]](&d, id)
	}
	describe[seekIn, one[MoveResult]](&d, "seek")
	describe[rebaseIn, one[MoveResult]](&d, "rebase")
	describe[forgetIn, one[ForgetResult]](&d, "forget")
	describe[tailIn, tailOut](&d, "tail")
	describe[struct{}, one[Examination]](&d, "doctor")
	for _, id := range []string{"get-retention", "retain"} {
		describe[struct{}, one[RetentionReport]](&d, id)
	}
	describe[struct{}, one[operate.Build]](&d, "get-version")
	for _, id := range []string{"redrive", "skip", "purge"} {
		describe[parkedOrderIn, one[ParkedResult]](&d, id)
	}
	describe[struct{}, reloadOut](&d, "reload")
	describe[transactionsIn, transactionsOut](&d, "list-transactions")
	describe[endIn, one[EndResult]](&d, "end-transaction")
	describe[topicIn, one[TopicResult]](&d, "create-topic")
	describe[probeIn, one[ProbeResult]](&d, "probe")
	describe[removeIn, one[RemoveResult]](&d, "remove-instance")
	describe[operationsIn, list[operate.OperationView]](&d, "list-operations")
	describe[OperationIn, one[operate.OperationView]](&d, "get-operation")
	describe[operationOrderIn, one[OperationsOrdered]](&d, "create-operation")
	for _, id := range []string{"stop-operation", "resume-operation"} {
		describe[operationChangeIn, one[OperationChanged]](&d, id)
	}
	for id := range d.left {
		t.Errorf("operation %s is not described", id)
	}
	got, err := json.MarshalIndent(d.api.OpenAPI(), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	const path = "openapi.json"
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("openapi.json is not current (%v): run go test ./admin/api -run TestTheDocumentIsCurrent -update", err)
	}
}

type describer struct {
	t    *testing.T
	api  huma.API
	left map[string]*operation
}

// describe adds an operation to the document.
func describe[I, O any](d *describer, id string) {
	d.t.Helper()
	op := d.left[id]
	if op == nil || op.in != reflect.TypeFor[I]() || op.out != reflect.TypeFor[O]() {
		d.t.Errorf("operation %s: %+v", id, op)
		return
	}
	delete(d.left, id)
	described := huma.Operation{
		OperationID: op.id, Method: op.method, Path: Prefix + op.path, Summary: op.summary, Description: "Role: " + op.role.String() + ".",
		Errors: []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusUnprocessableEntity,
			http.StatusInternalServerError, http.StatusServiceUnavailable},
	}
	if op.method == http.MethodGet {
		described.Responses = map[string]*huma.Response{"304": {Description: "The answer is the one with the ETag that If-None-Match names."}}
	}
	if op.method == http.MethodPost {
		described.Errors = append(described.Errors, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	if op.id == "get-retention" {
		described.Errors = append(described.Errors, http.StatusConflict) // another process is at it
	}
	if strings.Contains(op.path, "{") || op.in != reflect.TypeFor[Page]() {
		described.Errors = append(described.Errors, http.StatusNotFound)
	}
	if op.id == "reload" {
		described.Errors = append(described.Errors, http.StatusNotImplemented)
	}
	huma.Register(d.api, described, func(context.Context, *I) (*O, error) { return nil, nil })
}

// settings are huma's, without its pages and without links to schemas.
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
