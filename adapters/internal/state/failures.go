package state

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// The limits of counting failures. Everything but one row of each group is read from
// an index.
const (
	failuresWalked  = 1000    // groups that are found
	failuresGlanced = 100     // messages of each that say which groups are the largest
	failuresCounted = 200_000 // messages that are counted, over all groups that are shown
	failuresUnnamed = 10_000  // messages that an earlier version has parked
	failuresAtOnce  = 50      // groups of one statement without [Dialect.SkipScan]
)

// CountFailures implements [adapters.OperatorStore]: it finds the groups by skipping from one to
// the next in their index.
func (o *Operators) CountFailures(ctx context.Context, route string, most int) ([]adapters.ParkedFailure, bool, error) {
	failures, more, err := o.db.countFailures(ctx, route, most)
	if err != nil {
		return nil, false, o.db.Wrap("count the errors of parked messages", err)
	}
	return failures, more, nil
}

func (db *Database) countFailures(ctx context.Context, route string, most int) (out []adapters.ParkedFailure, more bool, err error) {
	first, last := int64(0), int64(math.MaxInt64)
	if route != "" {
		first, last = FailuresOf(route)
	}
	names, err := db.failureNames(ctx, first, last)
	if err != nil {
		return nil, false, err
	}
	if more = len(names) > most; more {
		names = names[:most]
	}
	limit := min(max(failuresCounted/max(len(names), 1), failuresGlanced), failuresCounted/2)
	index := map[int64]int{}
	for _, name := range names {
		f, err := db.failure(ctx, name, limit)
		if err != nil {
			return nil, false, err
		}
		if f.Count > 0 && (route == "" || f.Route == route) {
			index[name] = len(out)
			out = append(out, f)
		}
	}
	if !db.Unnamed {
		return out, more, nil
	}
	unnamed, others, err := db.unnamedFailures(ctx, route)
	for _, f := range unnamed {
		i, known := index[f.Name]
		if !known {
			i, index[f.Name] = len(out), len(out)
			out = append(out, adapters.ParkedFailure{Name: f.Name, Route: f.Route, Type: f.Type, Error: f.Error, First: f.First, Last: f.Last, ByStatus: map[adapters.ParkedStatus]int{}})
		}
		out[i].Add(f)
	}
	return out, more || others, err
}

// failureNames finds groups, the largest first.
func (db *Database) failureNames(ctx context.Context, first, last int64) (names []int64, err error) {
	seen := map[int64]int{}
	glance := func(scan func(...any) error) error {
		var name int64
		var n int
		err := scan(&name, &n)
		names, seen[name] = append(names, name), n
		return err
	}
	if db.SkipScan {
		err = db.Pool.Each(ctx, db.query(`WITH RECURSIVE walk(name) AS (
    SELECT min(failure) FROM outrider_parked WHERE failure >= ? AND failure <= ?
    UNION ALL
    SELECT (SELECT min(p.failure) FROM outrider_parked p WHERE p.failure > w.name AND p.failure <= ?) FROM walk w WHERE w.name IS NOT NULL
), named AS (SELECT name FROM walk WHERE name IS NOT NULL LIMIT ?)
SELECT n.name, (SELECT count(*) FROM (SELECT 1 FROM outrider_parked p WHERE p.failure = n.name LIMIT ?) x) AS seen
FROM named n ORDER BY seen DESC, n.name`, first, last, last, failuresWalked+1, failuresGlanced), glance)
		return names, err
	}
	var found []int64
	err = db.Pool.Each(ctx, db.query("SELECT DISTINCT failure FROM outrider_parked WHERE failure >= ? AND failure <= ? ORDER BY failure LIMIT ?", first, last, failuresWalked+1),
		func(scan func(...any) error) error {
			var name int64
			err := scan(&name)
			found = append(found, name)
			return err
		})
	for chunk := range slices.Chunk(found, failuresAtOnce) {
		if err != nil {
			return nil, err
		}
		s, union := db.query(""), ""
		for _, name := range chunk {
			s.And(union+"SELECT ? AS name, (SELECT count(*) FROM (SELECT 1 FROM outrider_parked WHERE failure = ? LIMIT ?) AS x) AS seen", name, name, failuresGlanced)
			union = " UNION ALL "
		}
		err = db.Pool.Each(ctx, s, glance)
	}
	slices.SortFunc(names, func(a, b int64) int { return cmp.Or(cmp.Compare(seen[b], seen[a]), cmp.Compare(a, b)) })
	return names, err
}

// failure counts the messages of one group, up to a limit.
func (db *Database) failure(ctx context.Context, name int64, limit int) (f adapters.ParkedFailure, err error) {
	f = adapters.ParkedFailure{Name: name, ByStatus: map[adapters.ParkedStatus]int{}}
	s := db.query("SELECT status, count(*), "+db.micros("min(parked_at)")+", "+db.micros("max(parked_at)")+
		" FROM (SELECT status, parked_at FROM outrider_parked WHERE failure = ? LIMIT ?) AS f GROUP BY status", name, limit+1)
	err = db.Pool.Each(ctx, s, func(scan func(...any) error) error {
		var part adapters.ParkedFailure
		var status string
		var first, last int64
		err := scan(&status, &part.Count, &first, &last)
		part.First, part.Last = time.UnixMicro(first), time.UnixMicro(last)
		part.ByStatus = map[adapters.ParkedStatus]int{adapters.ParkedStatus(status): part.Count}
		f.Add(part)
		return err
	})
	if err != nil || f.Count == 0 {
		return f, err
	}
	if f.More = f.Count > limit; f.More {
		if err := db.failureEnds(ctx, &f); err != nil {
			return f, err
		}
	}
	s = db.query("SELECT route, event_type, last_error FROM outrider_parked WHERE failure = ? ORDER BY slot DESC, seq DESC LIMIT 1", name)
	err = db.Pool.Each(ctx, s, func(scan func(...any) error) error { return scan(&f.Route, &f.Type, &f.Error) })
	f.Type = Unpack(f.Type)
	return f, err
}

// failureEnds finds the first and the last message of a group that was not counted whole: of
// each slot they have the least and the largest seq.
func (db *Database) failureEnds(ctx context.Context, f *adapters.ParkedFailure) error {
	slots := make([]string, adapters.Slots)
	for i := range slots {
		slots[i] = "SELECT " + strconv.Itoa(i) + " AS slot"
	}
	const one = "(SELECT parked_at FROM outrider_parked p WHERE p.failure = ? AND p.slot = s.slot ORDER BY p.seq"
	s := db.query("SELECT "+db.micros("min(e.first)")+", "+db.micros("max(e.last)")+" FROM (SELECT "+one+" LIMIT 1) AS first, "+one+" DESC LIMIT 1) AS last FROM ("+
		strings.Join(slots, " UNION ALL ")+") AS s) AS e", f.Name, f.Name)
	return db.Pool.Each(ctx, s, func(scan func(...any) error) error {
		var first, last *int64
		err := scan(&first, &last)
		if first != nil && last != nil {
			f.First, f.Last = time.UnixMicro(*first), time.UnixMicro(*last)
		}
		return err
	})
}

// unnamedFailures groups what an earlier version has parked, which did not name failures.
func (db *Database) unnamedFailures(ctx context.Context, route string) (out []adapters.ParkedFailure, more bool, err error) {
	s := db.query("SELECT route, status, event_type, last_error, count(*), " + db.micros("min(parked_at)") + ", " + db.micros("max(parked_at)") +
		" FROM (SELECT route, status, event_type, last_error, parked_at FROM outrider_parked WHERE failure IS NULL AND last_error <> ''")
	if route != "" {
		s.And(" AND route = ?", route)
	}
	s.And(" LIMIT ?) AS f GROUP BY route, status, event_type, last_error", failuresUnnamed+1)
	read := 0
	err = db.Pool.Each(ctx, s, func(scan func(...any) error) error {
		var f adapters.ParkedFailure
		var status string
		var first, last int64
		err := scan(&f.Route, &status, &f.Type, &f.Error, &f.Count, &first, &last)
		f.Type, f.First, f.Last = Unpack(f.Type), time.UnixMicro(first), time.UnixMicro(last)
		f.Name, f.ByStatus = Failure(f.Route, f.Type, f.Error), map[adapters.ParkedStatus]int{adapters.ParkedStatus(status): f.Count}
		read += f.Count
		out = append(out, f)
		return err
	})
	return out, read > failuresUnnamed, err
}
