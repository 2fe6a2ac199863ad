package outrider

import (
	"context"

	"github.com/outriderhq/outrider/internal/assembly"
)

// repolling asks the running generation to continue with a configuration that differs in
// nothing but how sources are polled.
type repolling struct {
	cfg  *Config
	done chan bool // takes whether it does; has room
}

// repoll puts a configuration to work without a drain, if that can be; done reports
// whether it is at work. Which generation that is up to is known where one follows the
// other: see [Outrider.serve].
func (o *Outrider) repoll(ctx context.Context, cfg *Config) (done bool, err error) {
	if _, only := cfg.OnlyPolls(o.generation.Load().current()); !only {
		return false, nil
	}
	ask := repolling{cfg, make(chan bool, 1)}
	select {
	case o.repolls <- ask:
		return <-ask.done, nil
	case <-o.ended:
		return false, errEnded
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// repoll continues with a configuration that only polls in another way than the one at
// work; otherwise it changes nothing and returns false. Sessions, claims and
// connections stay as they are. It is called by who serves the generation.
func (s *generation) repoll(cfg *Config) bool {
	polls, only := cfg.OnlyPolls(s.current())
	for name := range polls {
		feed := s.parts.Feeds[name] // of a source that no route reads: an empty one
		only = only && feed.Repollable()
	}
	if !only {
		return false
	}
	for _, name := range assembly.SortedNames(polls) {
		feed := s.parts.Feeds[name]
		feed.Repoll(s.router, polls[name])
		s.Options.Logger.Info("reloading: only poll of the source has changed; the new settings apply from the next poll, without a drain or a new connection",
			"source", name, "batch", polls[name].Batch, "min", polls[name].Min.String(), "max", polls[name].Max.String())
	}
	s.repolled.Store(cfg)
	return true
}

// current is the configuration that the generation works by.
func (s *generation) current() *Config {
	if cfg := s.repolled.Load(); cfg != nil {
		return cfg
	}
	return s.Config
}
