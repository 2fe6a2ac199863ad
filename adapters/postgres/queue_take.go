package postgres

import (
	"context"
	"strconv"
	"time"

	"github.com/outriderhq/outrider/outbox"
)

// take claims what was picked.
func (s *service) take(ctx context.Context) error {
	if len(s.picked) == 0 {
		return nil
	}
	var tids, keys, groups, places arrayText
	number := map[*visit]int{}
	count := map[*visit]int{}
	for i, p := range s.picked {
		group, place := i+1, 1
		if p.visit.group.ordered() {
			if number[p.visit] == 0 {
				number[p.visit] = group
			}
			count[p.visit]++
			group, place = number[p.visit], count[p.visit]
		}
		tids.tid(p.tid)
		keys.text(p.row.ID)
		groups.number(group)
		places.number(place)
	}
	rows, err := s.q.pool.Query(ctx, s.table.text.take, rawResults, tids.String(), keys.String(), groups.String(), places.String())
	if err != nil {
		return err
	}
	taken, now := make([]*outbox.Row, len(s.picked)), time.Now()
	for rows.Next() {
		v := rows.RawValues()
		i := int(int32FromBinary(v[0])) - 1
		taken[i] = s.hold(s.picked[i], &hold{stamp: int64FromBinary(v[1]), tid: tidFromBinary(v[3]), at: now}, int(int32FromBinary(v[2])))
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for i, row := range taken {
		if row != nil {
			s.rows = append(s.rows, row)
		} else { // somebody was faster; what became of the row will be seen
			s.table.enterFrom(s.picked[i].visit.group, s.picked[i].created)
		}
	}
	return nil
}

// hold turns a picked row into a claimed one.
func (s *service) hold(p picked, h *hold, attempts int) *outbox.Row {
	key := rowKey{s.table.name, p.row.ID}
	h.token, h.group, h.created, h.former = strconv.FormatInt(h.stamp, 36), p.visit.group, p.created, h.stamp
	p.row.Claim = &outbox.Claim{Table: key.table, Key: key.key, Token: h.token, Attempts: attempts}
	s.q.hold(key, h)
	return p.row
}
