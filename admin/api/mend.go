package api

import (
	"context"
	"net/http"

	"github.com/outriderhq/outrider/admin"
)

type transactionsIn struct {
	Source string `query:"source" maxLength:"200" doc:"Only those that rows of this source wait for."`
}

type transactionsOut struct {
	Body struct {
		Items []admin.Transaction `json:"items" nullable:"false" doc:"The longest first."`
	}
}

// EndOrder names the transaction to end.
type EndOrder struct {
	Author
	ID     string `json:"id" minLength:"1" maxLength:"200" doc:"Of a transaction, as /transactions shows it."`
	Source string `json:"source,omitempty" maxLength:"200" doc:"Where to look for it; default: in the databases of all sources."`
}

type endIn struct{ Body EndOrder }

// EndResult is the transaction that was ended.
type EndResult struct {
	Ended       bool               `json:"ended" doc:"false: that very transaction has ended already, and nothing was changed."`
	Transaction *admin.Transaction `json:"transaction,omitempty"`
}

// addMending adds what ends trouble outside of Outrider.
func (s *service) addMending() {
	transactions := get("/transactions", "list-transactions", "Transactions that have been open so long that rows wait for them, and that can be ended")
	transactions.role = admin.RoleAdmin // it shows statements
	add(s, transactions, s.transactions)
	add(s, operation{role: admin.RoleAdmin, method: http.MethodPost, path: "/transactions/end", id: "end-transaction", summary: "Roll a transaction back by ending its session"}, s.endTransaction)
}

func (s *service) transactions(ctx context.Context, in *transactionsIn) (*transactionsOut, error) {
	if err := checkText("source", in.Source); err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	out := &transactionsOut{}
	return out, s.console.Use(limited, func(op *admin.Operator) (err error) {
		out.Body.Items, err = op.Transactions(limited, in.Source)
		return err
	})
}

func (s *service) endTransaction(ctx context.Context, in *endIn) (*one[EndResult], error) {
	if err := checkText("id", in.Body.ID, "source", in.Body.Source, "by", in.Body.By); err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	out := &one[EndResult]{}
	return out, s.console.Use(limited, func(op *admin.Operator) (err error) {
		out.Body.Transaction, err = op.EndTransaction(limited, in.Body.Source, in.Body.ID, author(ctx, in.Body.Author))
		out.Body.Ended = out.Body.Transaction != nil
		return err
	})
}
