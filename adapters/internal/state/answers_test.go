package state

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/outriderhq/outrider/adapters/internal/sqltext"
)

// answers is a database that answers a statement by a part of its text, and writes down what it is sent.
type answers struct {
	rows    map[string][][]any
	changed map[string]int64 // otherwise 1
	fails   string           // a part of the statement that fails
	sent    []string         // beginnings of statements, with their arguments
}

func (a *answers) note(s *sqltext.Statement) error {
	text := strings.Join(strings.Fields(s.SQL()), " ")
	a.sent = append(a.sent, fmt.Sprint(text, " ", s.Args))
	if a.fails != "" && strings.Contains(text, a.fails) {
		return errBroken
	}
	return nil
}

func (a *answers) Each(_ context.Context, s *sqltext.Statement, row func(scan func(...any) error) error) error {
	if err := a.note(s); err != nil {
		return err
	}
	for part, rows := range a.rows {
		if !strings.Contains(s.SQL(), part) {
			continue
		}
		for _, values := range rows {
			err := row(func(into ...any) error {
				if len(into) != len(values) {
					return fmt.Errorf("%d columns are read of %d", len(into), len(values))
				}
				for i, v := range values {
					if to := reflect.ValueOf(into[i]).Elem(); v == nil {
						to.SetZero()
					} else {
						to.Set(reflect.ValueOf(v).Convert(to.Type()))
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *answers) Exec(_ context.Context, s *sqltext.Statement) (int64, error) {
	if err := a.note(s); err != nil {
		return 0, err
	}
	for part, n := range a.changed {
		if strings.Contains(s.SQL(), part) {
			return n, nil
		}
	}
	return 1, nil
}

// has reports whether a statement was sent that has a part.
func (a *answers) has(part string) bool {
	return slices.ContainsFunc(a.sent, func(s string) bool { return strings.Contains(s, part) })
}

// writes are the verbs and tables of what was sent and changes something, in order.
func (a *answers) writes() (all []string) {
	for _, s := range a.sent {
		words := strings.Fields(s)
		if words[0] == "UPDATE" {
			all = append(all, "UPDATE "+words[1])
		} else if words[0] != "SELECT" && words[0] != "WITH" {
			all = append(all, strings.Join(words[:3], " "))
		}
	}
	return all
}

// store is a store over the answers; more changes how it reaches them.
func (a *answers) store(more func(*Database)) *Operators {
	db := Database{Name: "store", Pool: a,
		Dialect: Dialect{Dialect: sqltext.Dialect{Param: sqltext.Question}, Later: "later(?)", Names: sqltext.Names{"now": "now()", "by": "by", "text": "text", "json": "",
			"alive": "lives", "flows": "status <> 'dead'", "beyond": "c.beyond", "cursors": "outrider_cursor", "role": "role", "lock": " FOR UPDATE"},
			Pause: func(route, address, group, reason, by string) (string, []any) {
				return "INSERT INTO outrider_pause VALUES (?, ?, ?, ?, ?)", []any{route, address, group, reason, by}
			},
			PauseOf: func(address string) (string, []any) { return "address = ?", []any{address} },
			OfGroup: func(packed string) (string, []any) { return "message_group = ?", []any{packed} }},
		Wrap: func(what string, err error) error {
			if err == nil {
				return nil
			}
			return fmt.Errorf("store: %s: %w", what, err)
		},
		Transact: func(_ context.Context, f func(Tx) error) error { return f(a) }}
	if more != nil {
		more(&db)
	}
	return NewOperators(db)
}
