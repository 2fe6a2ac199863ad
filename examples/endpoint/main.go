// Command endpoint is an HTTP API that writes a user and its event in one transaction, and handles the event in the same program right after the
// commit. It needs no server: users and events are in an SQLite file. With postgres://... or mysql://... in place of sqlite:PATH the relay is the
// same, and the table of users is made by another statement.
//
//	go run ./examples/endpoint
//	curl -X POST 'http://127.0.0.1:8080/users?name=heron'
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"time"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/adapters/sqlite"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/compat/outboxframework"
	"github.com/outriderhq/outrider/handlers/listeners"
	"github.com/outriderhq/outrider/outbox"
)

// User is a row of the table users, and the payload of UserCreated.
type User struct {
	ID   int64
	Name string
}

// UserCreated is the event of a new user.
const UserCreated outbox.Type[User] = "USER_CREATED"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, "127.0.0.1:8080", "users.db", os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, address, path string, out io.Writer) error {
	a, err := newApp(ctx, path, out)
	if err != nil {
		return err
	}
	server := &http.Server{Addr: address, Handler: a.handler(), ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.ListenAndServe() }()
	err = a.relay.Run(ctx)
	closed := server.Shutdown(context.WithoutCancel(ctx))
	if s := <-served; !errors.Is(s, http.ErrServerClosed) {
		err = errors.Join(err, s)
	}
	return errors.Join(err, closed, a.db.Close())
}

// app is the program.
type app struct {
	db     *sql.DB
	client *outbox.Client
	relay  *outrider.Outrider
}

// newApp makes the tables, and a relay that does not run yet.
func newApp(ctx context.Context, path string, out io.Writer) (*app, error) {
	cfg, err := outboxframework.NewSettings().Config("sqlite:" + path)
	if err != nil {
		return nil, err
	}
	if _, err := operate.Init(ctx, cfg); err != nil { // the outbox table; `outrider init` does the same
		return nil, err
	}
	registry := listeners.New()
	listeners.Listen(registry, UserCreated, func(_ context.Context, u User) error {
		_, err := fmt.Fprintf(out, "welcome, %s (user %d)\n", u.Name, u.ID)
		return err
	})
	a := &app{}
	if a.relay, err = outrider.New(cfg, outrider.WithListeners(outboxframework.Destination, registry)); err != nil {
		return nil, err
	}
	hot, err := a.relay.HotPath(outboxframework.Source) // the relay reads the table after each commit
	if err != nil {
		return nil, err
	}
	if a.client, err = outbox.NewClient(outbox.ClientConfig{Dialect: outbox.SQLite, Layout: "outbox-framework", Hot: hot}); err != nil {
		return nil, err
	}
	if a.db, err = sqlite.Open(path); err != nil {
		return nil, err
	}
	_, err = a.db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS users (id integer PRIMARY KEY AUTOINCREMENT, name text NOT NULL)`)
	return a, err
}

func (a *app) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /users", func(w http.ResponseWriter, r *http.Request) {
		u, err := a.create(r.Context(), r.FormValue("name"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintln(w, u.ID) // the client may have gone
	})
	return mux
}

// create writes the user and the event: both are committed, or neither is.
func (a *app) create(ctx context.Context, name string) (u User, err error) {
	u.Name = name
	err = outbox.InTx(ctx, a.db, func(ctx context.Context, tx *sql.Tx) error {
		if err := tx.QueryRowContext(ctx, `INSERT INTO users (name) VALUES (?) RETURNING id`, name).Scan(&u.ID); err != nil {
			return err
		}
		if name == "" {
			return errors.New("a user needs a name")
		}
		event, err := UserCreated.New(u).Aggregate("USER", strconv.FormatInt(u.ID, 10)).Build()
		if err != nil {
			return err
		}
		return a.client.Publish(ctx, tx, event)
	})
	return u, err
}
