//go:build linux && (amd64 || arm64)

package main

// look returns the full name of a credential cache, and the end of the ticket in
// it that lasts longest, in seconds since 1970: 0 if there is none. An empty name
// is the default cache.
func (l *library) look(name string) (full string, ends uint64) {
	var k, cache, cursor handle
	if l.newKerberos(&k) != 0 {
		return name, 0
	}
	var code int32
	if name == "" {
		code = l.defaultCache(k, &cache)
	} else {
		code = l.resolveCache(k, name, &cache)
	}
	if code != 0 {
		return name, 0
	}
	defer l.closeCache(k, cache)
	full = name
	var text *byte
	if l.fullName(k, cache, &text) == 0 {
		full = goText(text)
		l.freeText(k, text)
	}
	if l.startTickets(k, cache, &cursor) != 0 {
		return full, 0
	}
	defer l.endTickets(k, cache, &cursor)
	for {
		t := new(ticket)
		if l.nextTicket(k, cache, &cursor, t) != 0 {
			return full, ends
		}
		ends = max(ends, uint64(t.endTime))
		l.freeTicket(k, t)
	}
}
