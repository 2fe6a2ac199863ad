package state

import (
	"cmp"
	"context"
	"slices"
	"strings"
)

// failuresAtOnce bounds the groups that one statement glances at.
const failuresAtOnce = 50

// failureNamesMySQL is [failureNames] for MySQL and MariaDB, which skip in an index for DISTINCT, and whose
// recursive queries and subqueries cannot do it.
func failureNamesMySQL(ctx context.Context, d Dialect, tx Tx, first, last int64, most int) (names []int64, more bool, err error) {
	s := &Statement{dialect: d}
	s.add("SELECT DISTINCT failure FROM outrider_parked WHERE failure >= % AND failure <= % ORDER BY failure LIMIT %", first, last, failuresWalked+1)
	err = tx.Each(ctx, s, func(scan func(...any) error) error {
		var name int64
		err := scan(&name)
		names = append(names, name)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	seen := map[int64]int{}
	for chunk := range slices.Chunk(names, failuresAtOnce) {
		parts, args := make([]string, len(chunk)), make([]any, 0, 3*len(chunk))
		for i, name := range chunk {
			parts[i] = "SELECT % AS name, (SELECT count(*) FROM (SELECT 1 FROM outrider_parked WHERE failure = % LIMIT %) AS x) AS seen"
			args = append(args, name, name, failuresGlanced)
		}
		s := &Statement{dialect: d}
		s.add(strings.Join(parts, " UNION ALL "), args...)
		err := tx.Each(ctx, s, func(scan func(...any) error) error {
			var name int64
			var n int
			err := scan(&name, &n)
			seen[name] = n
			return err
		})
		if err != nil {
			return nil, false, err
		}
	}
	slices.SortFunc(names, func(a, b int64) int { return cmp.Or(cmp.Compare(seen[b], seen[a]), cmp.Compare(a, b)) })
	return names[:min(most, len(names))], len(names) > most, nil
}
