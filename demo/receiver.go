package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// maxBody is the largest body of a request in bytes.
const maxBody = 16 << 20

// receiver is the HTTP server of a region. It records accepted orders in the ledger.
// While it is closed, connections to its address are refused.
type receiver struct {
	region  string
	address string // host:port, the same each time it opens
	ledger  *ledger
	failing atomic.Bool // answer the failing customer with status 500

	server *http.Server
	served chan error
}

func newReceiver(region string, l *ledger) *receiver {
	return &receiver{region: region, address: "127.0.0.1:0", ledger: l}
}

// open listens: the first time on a free port, later on the same one, which
// another program may hold for a moment.
func (r *receiver) open(ctx context.Context) error {
	var listener net.Listener
	retry := time.NewTicker(50 * time.Millisecond)
	defer retry.Stop()
	limited, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for {
		var err error
		if listener, err = (&net.ListenConfig{}).Listen(limited, "tcp", r.address); err == nil {
			break
		}
		select {
		case <-retry.C:
		case <-limited.Done():
			return fmt.Errorf("receiver of region %s: %w", r.region, err)
		}
	}
	r.address = listener.Addr().String()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /{customer}/orders", r.accept)
	r.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)}
	r.served = make(chan error, 1)
	go func(s *http.Server) { r.served <- s.Serve(listener) }(r.server)
	return nil
}

// isOpen reports whether the receiver listens.
func (r *receiver) isOpen() bool { return r.server != nil }

// close stops listening and lets requests in flight end: an accepted order without a
// response would be delivered again.
func (r *receiver) close() error {
	if !r.isOpen() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := r.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, r.server.Close())
	}
	r.server = nil
	if served := <-r.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// accept takes a batch of orders of one customer, all or none.
func (r *receiver) accept(w http.ResponseWriter, req *http.Request) {
	customer := req.PathValue("customer")
	if customer == failingCustomer && r.failing.Load() {
		http.Error(w, "the printer is out of paper", http.StatusInternalServerError)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var orders []order
	if err := json.Unmarshal(body, &orders); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for _, o := range orders {
		if o.Customer != customer {
			http.Error(w, "order of another customer", http.StatusUnprocessableEntity)
			return
		}
	}
	r.ledger.receive(r.region, orders)
	w.WriteHeader(http.StatusNoContent)
}
