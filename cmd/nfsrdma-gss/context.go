//go:build linux && (amd64 || arm64)

package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/oncrpc/gss/tickets/wire"
)

// Numbers of gssapi.h.
const (
	continueNeeded = 1
	usageInitiate  = 1
	indefinite     = 0xffffffff
	contextExpired = 12 << 16
	wantMutual     = 2
	statusMajor    = 1 // kinds of gss_display_status
	statusMinor    = 2
)

// A mitInitiator is a security context of MIT's library. It implements initiator.
type mitInitiator struct {
	*library
	service string
	from    credSource
	target  handle
	cred    handle
	context handle

	bindings *channelBindings // or nil
}

// beginContext creates the first token from the first of the request's caches, or
// principals, that has a ticket.
func beginContext(q *wire.Request) (initiator, []byte, error) {
	unreadable := checkKeytab(q.Keytab)
	if unreadable != nil && len(q.Caches) == 0 {
		return nil, nil, unreadable
	}
	l, err := loadLibraries(gssapi, kerberosLibrary)
	if err != nil {
		return nil, nil, err
	}
	if err := forbidDNS(); err != nil {
		return nil, nil, &wire.Failure{Text: fmt.Sprintf("the configuration of Kerberos cannot be changed: %v", err)}
	}
	target, failure := l.nameHandle(q.Service, hostService)
	if failure != nil {
		return nil, nil, failure
	}
	sources := cacheSources(q.Caches)
	if q.Keytab != "" && unreadable == nil {
		sources = append(sources, keytabSources(q.Keytab, q.Principals)...)
	}
	var best, noCache *wire.Failure
	for _, from := range sources {
		m := &mitInitiator{library: l, service: q.Service, from: from, target: target}
		if len(q.Bindings) > 0 {
			m.bindings = &channelBindings{data: *newBuffer(q.Bindings)}
		}
		token, failure := m.firstToken(q.Enctypes)
		if failure == nil {
			return m, token, nil
		}
		if failure.Reason != wire.NoTicket && failure.Reason != wire.Expired {
			return nil, nil, failure // other caches would fail the same way
		}
		if best == nil || best.Reason == wire.NoTicket {
			best = failure
		}
		if from.keytab == "" {
			noCache = best
		}
	}
	if unreadable != nil {
		best = unreadable
	}
	if best != noCache {
		best = joinFailures(noCache, best)
	}
	if best == nil {
		best = &wire.Failure{Reason: wire.NoTicket, Text: "the mount named no credential cache"}
	}
	return nil, nil, best
}

// forbidDNS prepends a configuration file that keeps the library from resolving host
// names by DNS.
func forbidDNS() error {
	fd, err := unix.MemfdCreate("krb5.conf", 0)
	if err != nil {
		return err
	}
	if _, err := unix.Write(fd, []byte("[libdefaults]\n\tdns_canonicalize_hostname = false\n\trdns = false\n")); err != nil {
		return err
	}
	rest := os.Getenv("KRB5_CONFIG")
	if rest == "" {
		rest = "/etc/krb5.conf"
	}
	return os.Setenv("KRB5_CONFIG", fmt.Sprintf("/proc/self/fd/%d:%s", fd, rest))
}

// A credSource selects credentials: keys and values for MIT's credential store, and a
// principal, which is "" for any.
type credSource struct {
	cache     string // named in messages
	principal string
	pairs     []string // key, value, key, value
	keytab    string
}

func cacheSources(names []string) (list []credSource) {
	for _, name := range names {
		s := credSource{cache: name}
		if name != "" {
			s.pairs = []string{"ccache", name}
		}
		list = append(list, s)
	}
	return list
}

func keytabSources(keytab string, principals []string) (list []credSource) {
	for i, p := range principals {
		cache := fmt.Sprintf("MEMORY:%d", i) // for the tickets that the library obtains
		list = append(list, credSource{keytab: keytab, principal: p, pairs: []string{"client_keytab", keytab, "ccache", cache}})
	}
	return list
}

// firstToken acquires the source's credentials and creates the first token.
func (m *mitInitiator) firstToken(enctypes []uint32) ([]byte, *wire.Failure) {
	from := m.from
	if from.keytab == "" {
		if failure := m.checkCache(from.cache); failure != nil {
			return nil, failure
		}
	}
	var minor uint32
	var name handle
	if from.principal != "" {
		var failure *wire.Failure
		if name, failure = m.nameHandle(from.principal, principal); failure != nil {
			return nil, m.addDetails(failure)
		}
	}
	elements := make([]storeElement, 0, 2)
	for i := 0; i < len(from.pairs); i += 2 {
		elements = append(elements, storeElement{cText(from.pairs[i]), cText(from.pairs[i+1])})
	}
	set := &credStore{count: uint32(len(elements)), elements: unsafe.SliceData(elements)}
	mechs := &oidSet{count: 1, elements: kerberos}
	if major := m.acquireFrom(&minor, name, indefinite, mechs, usageInitiate, set, &m.cred, nil, nil); major != 0 {
		return nil, m.failureWithRemedy(major, minor)
	}
	runtime.KeepAlive(elements)
	if len(enctypes) > 0 {
		if major := m.setEnctypes(&minor, m.cred, uint32(len(enctypes)), &enctypes[0]); major != 0 {
			return nil, m.failureWithRemedy(major, minor)
		}
	}
	token, _, failure := m.initiateContext(nil)
	return token, failure
}

// nextToken creates the next token (gss_init_sec_context). It requests mutual
// authentication and never delegates the ticket.
func (m *mitInitiator) nextToken(answer []byte) ([]byte, bool, error) {
	token, complete, failure := m.initiateContext(answer)
	if failure != nil {
		return nil, false, failure
	}
	return token, complete, nil
}

// initiateContext calls gss_init_sec_context; answer is nil for the first token.
func (m *mitInitiator) initiateContext(answer []byte) (token []byte, complete bool, _ *wire.Failure) {
	var minor, lasts uint32
	var in *buffer
	if answer != nil {
		in = newBuffer(answer)
	}
	out := new(buffer)
	major := m.initContext(&minor, m.cred, &m.context, m.target, kerberos, wantMutual, 0, m.bindings, in, nil, out, nil, &lasts)
	runtime.KeepAlive(answer)
	if major != 0 && major != continueNeeded {
		failure := m.failureWithRemedy(major, minor)
		if failure.Reason == wire.Clock && answer != nil {
			failure.Text = clockFailure(answer)
		}
		return nil, false, failure
	}
	if token = m.takeBuffer(out); lasts == 0 { // the library creates tokens for some seconds after the expiry
		return nil, false, m.failureWithRemedy(contextExpired, 0)
	}
	return token, major == 0, nil
}

// exportKeys exports the complete context; the library then has it no longer.
func (m *mitInitiator) exportKeys() (*wire.Keys, error) {
	var minor uint32
	var user handle
	if major := m.inquireContext(&minor, m.context, &user, nil, nil, nil, nil, nil, nil); major != 0 {
		return nil, m.failureWithRemedy(major, minor)
	}
	text := new(buffer)
	if major := m.displayName(&minor, user, text, nil); major != 0 {
		return nil, m.failureWithRemedy(major, minor)
	}
	keys := &wire.Keys{User: string(m.takeBuffer(text))}
	var lucid *lucidContext
	if major := m.exportLucid(&minor, &m.context, 1, &lucid); major != 0 {
		return nil, m.failureWithRemedy(major, minor)
	}
	defer m.freeLucid(&minor, lucid)
	if lucid.protocol != 1 {
		return nil, &wire.Failure{Text: "the server has a key of an encryption type that is too old (RFC 4121 needs AES): renew the keys of " + m.service}
	}
	key := lucid.key
	if keys.Subkey = lucid.haveSubkey != 0; keys.Subkey {
		key = lucid.subkey
	}
	keys.Enctype, keys.Sequence, keys.Expires = key.enctype, lucid.sendSequence, uint64(lucid.endTime)
	keys.Key = append(keys.Key, unsafe.Slice(key.data, key.length)...)
	return keys, nil
}

// failureWithRemedy returns the Failure for an error of the library, with a remedy.
func (m *mitInitiator) failureWithRemedy(major, minor uint32) *wire.Failure {
	return m.addDetails(m.library.statusFailure(major, minor))
}

// statusFailure returns the Failure for the statuses of a library call.
func (l *library) statusFailure(major, minor uint32) *wire.Failure {
	words := l.statusText(minor, statusMinor)
	if words == "Success" || strings.HasPrefix(words, "Unknown error") {
		words = l.statusText(major, statusMajor)
	}
	return &wire.Failure{Reason: failureReason(major, minor), Text: words}
}

// addDetails adds the cache and a remedy to a Failure.
func (m *mitInitiator) addDetails(f *wire.Failure) *wire.Failure {
	if f.Reason != wire.NoTicket && f.Reason != wire.Expired {
		f.Text = withRemedy(f.Reason, m.service, f.Text)
		return f
	}
	if m.from.keytab != "" {
		f.Text = fmt.Sprintf("no ticket from the keytab %s (%s)", m.from.keytab, f.Text)
		return f
	}
	cache, ended := m.inspectCache(m.from.cache)
	f.Cache, f.Ended = cache, ended
	f.Reason, f.Text = ticketFailure(cache, ended)
	return f
}
