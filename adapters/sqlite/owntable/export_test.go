package owntable

// Query is the statement that reads.
func (s *Source) Query() string { return s.query }
