package state

import (
	"context"
	"errors"
	"fmt"

	"github.com/outriderhq/outrider/adapters"
)

// Bind implements [adapters.StateStore] for databases whose statements are not worth a batch.
func (o *Operators) Bind(ctx context.Context, route string, table adapters.Table) error {
	err := o.db.Transact(ctx, func(tx Tx) error {
		if o.db.LockOwners != nil {
			if err := o.db.LockOwners(ctx, tx, route); err != nil {
				return err
			}
		}
		var other *adapters.OtherTable
		err := tx.Each(ctx, o.db.query(`SELECT c.cluster, c.source FROM outrider_cursor c
WHERE c.route = ? AND (c.source <> '' OR c.updated_at IS NOT NULL) AND (c.cluster <> ? OR ? <> '' AND c.source NOT IN ('', ?))
ORDER BY c.slot LIMIT 1`, route, table.Cluster, table.Name, table.Name), func(scan func(...any) error) error {
			other = &adapters.OtherTable{Source: table}
			return scan(&other.Cursor.Cluster, &other.Cursor.Name)
		})
		switch {
		case err != nil:
			return err
		case other != nil:
			return other
		}
		_, err = o.db.exec(ctx, tx, `UPDATE outrider_cursor SET cluster = ?, source = ? WHERE route = ? AND source = ''`, table.Cluster, table.Name, route)
		return err
	})
	if errors.As(err, new(*adapters.OtherTable)) {
		return err
	}
	return o.db.Wrap(fmt.Sprintf("say which table route %q reads", route), err)
}
