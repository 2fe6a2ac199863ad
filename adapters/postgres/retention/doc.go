// Package retention removes rows of an outbox table in Outrider's own layout that every route has settled: row by row, or by partitions
// that it makes ahead of need and drops ([Remover]).
package retention
