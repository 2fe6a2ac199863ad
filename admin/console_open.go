package admin

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// longTransactions asks a route's source for transactions that have been open for long.
func (op *Operator) longTransactions(ctx context.Context, route string) openTransactions {
	o := openTransactions{at: time.Now()}
	f, _, err := op.reading(ctx, route)
	if err != nil {
		return o
	}
	examiner, ok := f.Source.(adapters.TransactionLister)
	if f.Queue != nil {
		examiner, ok = f.Queue.(adapters.TransactionLister)
	}
	if !ok {
		return o
	}
	findings := examiner.ExamineOpen(ctx)
	if i := slices.IndexFunc(findings, func(f adapters.Finding) bool { return f.Level >= adapters.LevelWarning }); i >= 0 {
		o.text, o.fix, o.id = findings[i].Text, cmp.Or(findings[i].Fix, "end the transaction"), findings[i].Transaction
	}
	return o
}
