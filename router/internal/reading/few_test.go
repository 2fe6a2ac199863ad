package reading

import "testing"

// With little memory each read has its turn, and at most one row of each slot is read for routes with order global.
func TestFewReadsTakeTurns(t *testing.T) {
	const ordinary, globals = 3, 2
	for n := range ordinary + 3*globals {
		turns := map[int]int{}
		for turn := range 40 {
			p := &plan{unread: true}
			for slot := range ordinary {
				p.reads = append(p.reads, &read{slot: slot, limit: 9})
			}
			for i := range globals {
				g := &globalRead{kept: i}
				for slot := range 3 {
					g.reads[slot] = &read{slot: slot, limit: 9, global: g}
				}
				p.globals = append(p.globals, g)
			}
			p.addGlobals(turn)
			p.few(n, turn)
			want, own := 0, 0
			for _, g := range p.globals {
				turns[ordinary+g.kept]++
				want += 3
			}
			for _, rd := range p.reads {
				if rd.limit != 1 {
					t.Fatalf("a read of %d rows", rd.limit)
				}
				if rd.global == nil {
					turns[rd.slot]++
					own++
				}
			}
			if len(p.globals) > 1 || len(p.reads) != want+own || own+len(p.globals) > n || p.unread {
				t.Fatalf("n %d: %d reads of their own, %d global ones, %d reads", n, own, len(p.globals), len(p.reads))
			}
		}
		if n > 0 && len(turns) != ordinary+globals {
			t.Errorf("n %d: not all had a turn: %v", n, turns)
		}
	}
}
