//go:build linux && (amd64 || arm64)

package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/nfsrdma/nfsrdma/oncrpc/gss/tickets/wire"
)

// checkCache returns a failure if other users have access to a cache. An empty name is
// the default cache.
func (l *library) checkCache(name string) *wire.Failure {
	full := name
	l.withCache(name, func(_, _ handle, f string) { full = f })
	err := checkOwner(full, uint32(os.Geteuid()))
	switch {
	case err == nil || full == "": // a default that the library cannot open has no ticket
		return nil
	case errors.Is(err, errNoCache):
		f := &wire.Failure{Cache: full}
		f.Reason, f.Text = ticketFailure(full, 0)
		return f
	}
	return &wire.Failure{Reason: wire.NoTicket, Cache: full, Text: fmt.Sprintf("the credential cache %s is not used: %v", full, err)}
}

// withCache opens a cache and calls do with it and its full name. If the cache cannot be
// opened, do is not called.
func (l *library) withCache(name string, do func(k, cache handle, full string)) {
	var k, cache handle
	if l.newKerberos(&k) != 0 {
		return
	}
	var code int32
	if name == "" {
		code = l.defaultCache(k, &cache)
	} else {
		code = l.resolveCache(k, name, &cache)
	}
	if code != 0 {
		return
	}
	defer l.closeCache(k, cache)
	var text *byte
	if l.fullName(k, cache, &text) == 0 {
		name = goText(text)
		l.freeText(k, text)
	}
	do(k, cache, name)
}

// inspectCache returns the full name of a credential cache, and the latest expiry of its
// tickets in seconds since 1970, or 0 if it has none. An empty name is the default cache.
func (l *library) inspectCache(name string) (full string, ends uint64) {
	full = name
	l.withCache(name, func(k, cache handle, f string) {
		full = f
		var cursor handle
		if l.startTickets(k, cache, &cursor) != 0 {
			return
		}
		defer l.endTickets(k, cache, &cursor)
		for {
			t := new(ticket)
			if l.nextTicket(k, cache, &cursor, t) != 0 {
				return
			}
			ends = max(ends, uint64(t.endTime))
			l.freeTicket(k, t)
		}
	})
	return full, ends
}
