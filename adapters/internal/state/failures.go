package state

import (
	"context"
	"math"
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
)

// CountFailures implements [adapters.OperatorStore]: it finds the groups by skipping from one to
// the next in their index.
func CountFailures(ctx context.Context, d Dialect, tx Tx, route string, most int) (out []adapters.ParkedFailure, more bool, err error) {
	names, more, err := failureNames(ctx, d, tx, route, most)
	if err != nil {
		return nil, false, err
	}
	limit := min(max(failuresCounted/max(len(names), 1), failuresGlanced), failuresCounted/2)
	index := map[int64]int{}
	for _, name := range names {
		f, err := failure(ctx, d, tx, name, limit)
		if err != nil {
			return nil, false, err
		}
		if f.Count > 0 && (route == "" || f.Route == route) {
			index[name] = len(out)
			out = append(out, f)
		}
	}
	if d.MySQL { // no earlier version has parked anything there
		return out, more, nil
	}
	unnamed, others, err := unnamedFailures(ctx, d, tx, route)
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

// failureNames finds the largest groups; more reports that there are others.
func failureNames(ctx context.Context, d Dialect, tx Tx, route string, most int) (names []int64, more bool, err error) {
	first, last := int64(0), int64(math.MaxInt64)
	if route != "" {
		first, last = FailuresOf(route)
	}
	if d.MySQL {
		return failureNamesMySQL(ctx, d, tx, first, last, most)
	}
	s := &Statement{dialect: d}
	s.add(`WITH RECURSIVE walk(name) AS (
    SELECT min(failure) FROM outrider_parked WHERE failure >= % AND failure <= %
    UNION ALL
    SELECT (SELECT min(p.failure) FROM outrider_parked p WHERE p.failure > w.name AND p.failure <= %) FROM walk w WHERE w.name IS NOT NULL
), named AS (SELECT name FROM walk WHERE name IS NOT NULL LIMIT %)
SELECT n.name, (SELECT count(*) FROM (SELECT 1 FROM outrider_parked p WHERE p.failure = n.name LIMIT %) x) AS seen
FROM named n ORDER BY seen DESC, n.name`, first, last, last, failuresWalked+1, failuresGlanced)
	err = tx.Each(ctx, s, func(scan func(...any) error) error {
		var name int64
		var seen int
		err := scan(&name, &seen)
		names = append(names, name)
		return err
	})
	if more = len(names) > most; more {
		names = names[:most]
	}
	return names, more, err
}

// failure counts the messages of one group, up to a limit.
func failure(ctx context.Context, d Dialect, tx Tx, name int64, limit int) (f adapters.ParkedFailure, err error) {
	f = adapters.ParkedFailure{Name: name, ByStatus: map[adapters.ParkedStatus]int{}}
	s := &Statement{dialect: d}
	s.add("SELECT status, count(*), "+d.micros("min(parked_at)")+", "+d.micros("max(parked_at)")+
		" FROM (SELECT status, parked_at FROM outrider_parked WHERE failure = % LIMIT %) AS f GROUP BY status", name, limit+1)
	err = tx.Each(ctx, s, func(scan func(...any) error) error {
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
		if err := failureEnds(ctx, d, tx, &f); err != nil {
			return f, err
		}
	}
	s = &Statement{dialect: d}
	s.add("SELECT route, event_type, last_error FROM outrider_parked WHERE failure = % ORDER BY slot DESC, seq DESC LIMIT 1", name)
	err = tx.Each(ctx, s, func(scan func(...any) error) error { return scan(&f.Route, &f.Type, &f.Error) })
	f.Type = Unpack(f.Type)
	return f, err
}

// failureEnds finds the first and the last message of a group that was not counted whole: of
// each slot they have the least and the largest seq.
func failureEnds(ctx context.Context, d Dialect, tx Tx, f *adapters.ParkedFailure) error {
	slots := make([]string, adapters.Slots)
	for i := range slots {
		slots[i] = "SELECT " + strconv.Itoa(i) + " AS slot"
	}
	s := &Statement{dialect: d}
	const one = "(SELECT parked_at FROM outrider_parked p WHERE p.failure = % AND p.slot = s.slot ORDER BY p.seq"
	s.add("SELECT "+d.micros("min(e.first)")+", "+d.micros("max(e.last)")+" FROM (SELECT "+one+" LIMIT 1) AS first, "+one+" DESC LIMIT 1) AS last FROM ("+
		strings.Join(slots, " UNION ALL ")+") AS s) AS e", f.Name, f.Name)
	return tx.Each(ctx, s, func(scan func(...any) error) error {
		var first, last *int64
		err := scan(&first, &last)
		if first != nil && last != nil {
			f.First, f.Last = time.UnixMicro(*first), time.UnixMicro(*last)
		}
		return err
	})
}

// unnamedFailures groups what an earlier version has parked, which did not name failures.
func unnamedFailures(ctx context.Context, d Dialect, tx Tx, route string) (out []adapters.ParkedFailure, more bool, err error) {
	s := &Statement{dialect: d}
	s.add("SELECT route, status, event_type, last_error, count(*), " + d.micros("min(parked_at)") + ", " + d.micros("max(parked_at)") +
		" FROM (SELECT route, status, event_type, last_error, parked_at FROM outrider_parked WHERE failure IS NULL AND last_error <> ''")
	if route != "" {
		s.add(" AND route = %", route)
	}
	s.add(" LIMIT %) AS f GROUP BY route, status, event_type, last_error", failuresUnnamed+1)
	looked := 0
	err = tx.Each(ctx, s, func(scan func(...any) error) error {
		var f adapters.ParkedFailure
		var status string
		var first, last int64
		err := scan(&f.Route, &status, &f.Type, &f.Error, &f.Count, &first, &last)
		f.Type, f.First, f.Last = Unpack(f.Type), time.UnixMicro(first), time.UnixMicro(last)
		f.Name, f.ByStatus = Failure(f.Route, f.Type, f.Error), map[adapters.ParkedStatus]int{adapters.ParkedStatus(status): f.Count}
		looked += f.Count
		out = append(out, f)
		return err
	})
	return out, looked > failuresUnnamed, err
}
