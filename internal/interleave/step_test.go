package interleave_test

import (
	"regexp"
	"strings"
)

// action is what the scheduler does with a step.
type action int

const (
	goOn      action = iota
	cutBefore        // the connection is cut, and the server never gets the statement
	cutAfter         // the server carries it out, and the connection is cut before its answer
)

func (a action) String() string { return [...]string{"", " [cut before]", " [cut after]"}[a] }

// touches are the tables that a step reads (false) or changes or locks (true).
type touches map[string]bool

// step is a statement, or the end of a transaction, that waits to be sent to the server.
type step struct {
	text string
	of   touches
}

// commute reports whether two steps have the same effect in either order: they share no table that one of them changes.
func (t touches) commute(o touches) bool {
	for table, changes := range t {
		if also, shared := o[table]; shared && (changes || also) {
			return false
		}
	}
	return true
}

// add takes in another step; changes alone, if only those matter: of a transaction that ends.
func (t touches) add(o touches, changesAlone bool) {
	for table, changes := range o {
		if changes || !changesAlone {
			t[table] = t[table] || changes
		}
	}
}

var (
	tables  = regexp.MustCompile("(?:(insert into|insert ignore into|update|delete from|lock table(?: only)?|drop table|copy)\\s+)?(?:[\"`]?\\w+[\"`]?\\.)?[\"`]?\\b(outrider_[a-z_]+|outbox_[a-z_]+|river_job|sink)\\b")
	parts   = regexp.MustCompile(`outrider_outbox_p\d+`)
	locking = regexp.MustCompile(`\bfor (no key )?update|\bfor share|straight_join`)
	advice  = regexp.MustCompile(`pg_(try_)?advisory|(is_used_lock)|pg_terminate_backend|^\s*kill \d`)
	ends    = regexp.MustCompile(`^\s*(commit|rollback)\b`)
)

// touched is what a statement reads and changes, as its text says. Advisory locks count as a table, which the end of a session changes. A statement that locks what it reads
// is taken to change all its tables.
func touched(text string) touches {
	text, of := parts.ReplaceAllString(strings.ToLower(text), "outrider_outbox"), touches{}
	locks := locking.MatchString(text) || strings.Contains(text, "nextval")
	if strings.Contains(text, "limit 1000) w") {
		return of // how much waits, beside claims: it decides whether rows are claimed from memory later
	}
	for _, m := range tables.FindAllStringSubmatch(text, -1) {
		if strings.HasPrefix(m[2], "outrider_fetch") || strings.HasSuffix(m[2], "_idx") {
			continue // names of statements and indexes
		}
		of[m[2]] = of[m[2]] || locks || m[1] != ""
	}
	if m := advice.FindStringSubmatch(text); m != nil {
		of["advisory locks"] = of["advisory locks"] || m[1]+m[2] == ""
	}
	if strings.Contains(text, "pg_locks") {
		of["outrider_outbox"] = of["outrider_outbox"] || false // who writes to it
	}
	return of
}

// isEnd reports whether a statement ends a transaction.
func isEnd(text string) bool { return ends.MatchString(strings.ToLower(text)) }

// short is a statement as a trace shows it.
func short(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > 110 {
		text = text[:110] + " ..."
	}
	return text
}
