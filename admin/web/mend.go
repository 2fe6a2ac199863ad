package web

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/outriderhq/outrider/admin"
)

// confirmEnd shows the transaction that will be ended.
func (s *server) confirmEnd(ctx context.Context, q url.Values, d *confirmData) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	source, id := q.Get("source"), q.Get("transaction")
	var open []admin.Transaction
	err := s.console.Use(ctx, func(op *admin.Operator) (err error) {
		open, err = op.Transactions(ctx, source)
		return err
	})
	i := slices.IndexFunc(open, func(t admin.Transaction) bool { return t.ID == id })
	if err != nil || i < 0 {
		d.Nothing = "The transaction has ended already."
		return err
	}
	t := &open[i]
	d.Grave, d.Verb = true, "End the transaction"
	d.Fields = [][2]string{{"source", source}, {"transaction", id}}
	d.Facts = [][2]string{{"process", strconv.Itoa(t.Process)}, {"application", t.Application}, {"user", t.User}, {"client", t.Client},
		{"open for", (time.Duration(t.OpenSeconds) * time.Second).String()}, {"state", t.State}, {"statement", t.Statement}}
	d.Undone = []string{"Its session is ended, and all that the transaction has written is rolled back. The program gets an error, and may connect again.",
		"This cannot be undone. Only this very transaction is ended: if it ends before you confirm, nothing happens."}
	return nil
}

func (s *server) endTransaction(ctx context.Context, form url.Values) (said string, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	var t *admin.Transaction
	err = s.console.Use(ctx, func(op *admin.Operator) (err error) {
		t, err = op.EndTransaction(ctx, form.Get("source"), form.Get("transaction"), admin.PageAuthor(ctx))
		return err
	})
	switch {
	case err != nil && admin.StatusOf(err) == http.StatusForbidden:
		return "", failed(http.StatusForbidden, "%v", err)
	case err != nil || t == nil:
		return "Nothing changed: the transaction has ended already.", err
	}
	return "Ended the transaction of " + strings.TrimSpace(t.Application+" (process "+strconv.Itoa(t.Process)) + "). It is rolled back.", nil
}
