package pgtx

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// TestClassify: what the server refuses because of a row's values is that message's fault, and nothing else is.
func TestClassify(t *testing.T) {
	t.Parallel()
	fixes := Fixes{Shape: "create the table", Rights: "grant INSERT"}
	plain := errors.New("connection reset")
	for name, tt := range map[string]struct {
		err      error
		kind     outbox.Kind
		conflict bool
		fix      string
	}{
		"no answer":           {plain, outbox.KindUnavailable, false, ""},
		"serialization":       {&pgconn.PgError{Code: "40001"}, outbox.KindOf(plain), true, ""},
		"deadlock":            {&pgconn.PgError{Code: "40P01"}, outbox.KindOf(plain), true, ""},
		"lock":                {&pgconn.PgError{Code: "55P03"}, outbox.KindOf(plain), true, ""},
		"no table":            {&pgconn.PgError{Code: "42P01"}, outbox.KindUnavailable, false, "; create the table"},
		"no column":           {&pgconn.PgError{Code: "42703"}, outbox.KindUnavailable, false, "; create the table"},
		"no right":            {&pgconn.PgError{Code: "42501"}, outbox.KindUnavailable, false, "; grant INSERT"},
		"row security":        {&pgconn.PgError{Code: "42501", Routine: "ExecWithCheckOptions"}, outbox.KindPermanent, false, ""},
		"a trigger":           {&pgconn.PgError{Code: "P0001"}, outbox.KindOf(plain), false, ""},
		"a value":             {&pgconn.PgError{Code: "22P02"}, outbox.KindPermanent, false, ""},
		"a constraint":        {&pgconn.PgError{Code: "23514"}, outbox.KindPermanent, false, ""},
		"a limit":             {&pgconn.PgError{Code: "54000"}, outbox.KindPermanent, false, ""},
		"a view's check":      {&pgconn.PgError{Code: "44000"}, outbox.KindPermanent, false, ""},
		"no memory":           {&pgconn.PgError{Code: "53200"}, outbox.KindUnavailable, false, ""},
		"it is shutting down": {&pgconn.PgError{Code: "57P01"}, outbox.KindUnavailable, false, ""},
	} {
		got := Classify(tt.err, fixes)
		if outbox.KindOf(got) != tt.kind || errors.Is(got, adapters.ErrConflict) != tt.conflict || !errors.Is(got, tt.err) || !strings.HasSuffix(got.Error(), tt.fix) {
			t.Errorf("%s: %v of the kind %v, want %v with the fix %q", name, got, outbox.KindOf(got), tt.kind, tt.fix)
		}
	}
}
