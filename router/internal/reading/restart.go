package reading

import "github.com/outriderhq/outrider/router/internal/lane"

// restart ends all sessions that read the source: their cursors are not valid in it any more, because it was put back to an earlier state, or
// rows were removed before they were read. They begin again with the durable cursors, which were perhaps put back with it; if those are not
// valid either, the route stops with an error.
func (r *Reader) restart(err error) {
	r.log.Warn("cursors are not valid in the source any more; its routes begin again with their durable cursors", "error", err)
	for _, rt := range r.routes.All() {
		for slot := range rt.PutBack {
			rt.PutBack[slot].Store(true)
		}
	}
	r.sessions(func(rt *lane.Route, s *lane.Session) { rt.Lease.Lost(s) })
}

// sessions calls f for each session that reads the source.
func (r *Reader) sessions(f func(*lane.Route, *lane.Session)) {
	for _, rt := range r.routes.All() {
		for _, l := range rt.Lanes {
			if s := l.Session(); s != nil {
				f(rt.Route, s)
			}
		}
	}
}
