package memstore

// Counters is how many counters the store keeps.
func (s *Store) Counters() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.counters)
}

// Records is how many records it keeps, tombstones included.
func (s *Store) Records() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.records)
}
