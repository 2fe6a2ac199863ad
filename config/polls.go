package config

import "reflect"

// polled is a source that is polled.
type polled interface {
	// apart returns the source's poll settings, and a copy without them.
	apart() (Poll, Source)
}

func (p *Postgres) apart() (Poll, Source) {
	rest := *p
	rest.Poll = Poll{}
	return p.Poll, &rest
}

func (s *SQLite) apart() (Poll, Source) {
	rest := *s
	rest.Poll = Poll{}
	return s.Poll, &rest
}

func (m *MySQL) apart() (Poll, Source) {
	rest := *m
	rest.Poll = Poll{}
	return m.Poll, &rest
}

// OnlyPolls compares a configuration with the former one. If all that differs is the
// section poll of sources it returns their new ones, by the sources' names; ok is false
// if something else differs, or nothing. Where a line stands does not count.
func (cfg *Config) OnlyPolls(former *Config) (polls map[string]Poll, ok bool) {
	was, rest := former.withoutPolls()
	is, now := cfg.withoutPolls()
	if !reflect.DeepEqual(rest, now) {
		return nil, false
	}
	polls = map[string]Poll{}
	for name, poll := range is {
		if poll != was[name] {
			polls[name] = poll
		}
	}
	return polls, len(polls) > 0
}

// withoutPolls takes apart what can change at work and the rest of a configuration.
func (cfg *Config) withoutPolls() (polls map[string]Poll, rest *Config) {
	polls, rest = map[string]Poll{}, new(*cfg)
	rest.Warnings, rest.Notes, rest.Sources = nil, nil, map[string]Source{}
	for name, source := range cfg.Sources {
		if p, ok := source.(polled); ok {
			polls[name], source = p.apart()
		}
		rest.Sources[name] = source
	}
	return polls, rest
}
