//go:build linux && (amd64 || arm64)

package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/tickets/wire"
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

// A making is a context of the library. It implements initiator.
type making struct {
	*library
	service string
	from    source
	target  handle
	cred    handle
	context handle

	bindings *channelBindings // or nil
}

// begin makes the first token, with the first of the request's caches, or of its
// principals, that has a ticket.
func begin(q *wire.Request) (initiator, []byte, error) {
	if q.Keytab != "" {
		if err := unix.Access(q.Keytab, unix.R_OK); err != nil {
			return nil, nil, &wire.Failure{Reason: wire.NoTicket, Words: fmt.Sprintf("the keytab %s cannot be read (%v): correct its name or its permissions", q.Keytab, err)}
		}
	}
	l, err := load(gssapi, kerberosLibrary)
	if err != nil {
		return nil, nil, err
	}
	if err := forbidDNS(); err != nil {
		return nil, nil, &wire.Failure{Words: fmt.Sprintf("the configuration of Kerberos cannot be changed: %v", err)}
	}
	target, failure := l.name(q.Service, hostService)
	if failure != nil {
		return nil, nil, failure
	}
	sources := cacheSources(q.Caches)
	if q.Keytab != "" {
		sources = keytabSources(q.Keytab, q.Principals)
	}
	var best *wire.Failure
	for _, from := range sources {
		m := &making{library: l, service: q.Service, from: from, target: target}
		if len(q.Bindings) > 0 {
			m.bindings = &channelBindings{data: *newBuffer(q.Bindings)}
		}
		token, failure := m.start(q.Enctypes)
		if failure == nil {
			return m, token, nil
		}
		if failure.Reason != wire.NoTicket && failure.Reason != wire.Expired {
			return nil, nil, failure // it has nothing to do with the cache
		}
		if best == nil || best.Reason == wire.NoTicket {
			best = failure
		}
	}
	if best == nil {
		best = &wire.Failure{Reason: wire.NoTicket, Words: "the mount named no credential cache"}
	}
	return nil, nil, best
}

// forbidDNS puts a file in front of the configuration that keeps the library from
// asking DNS for the names of hosts.
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

// A source of credentials is a set of keys and values of MIT's credential stores,
// and a principal, or none for any.
type source struct {
	cache     string // for the words
	principal string
	pairs     []string // key, value, key, value
	keytab    string
}

func cacheSources(names []string) (list []source) {
	for _, name := range names {
		s := source{cache: name}
		if name != "" {
			s.pairs = []string{"ccache", name}
		}
		list = append(list, s)
	}
	return list
}

func keytabSources(keytab string, principals []string) (list []source) {
	for i, p := range principals {
		cache := fmt.Sprintf("MEMORY:%d", i) // the tickets that the library gets
		list = append(list, source{keytab: keytab, principal: p, pairs: []string{"client_keytab", keytab, "ccache", cache}})
	}
	return list
}

// start gets the credentials of a source, and makes the first token.
func (m *making) start(enctypes []uint32) ([]byte, *wire.Failure) {
	from := m.from
	var minor uint32
	var name handle
	if from.principal != "" {
		var failure *wire.Failure
		if name, failure = m.name(from.principal, principal); failure != nil {
			return nil, m.explain(failure)
		}
	}
	elements := make([]storeElement, 0, 2)
	for i := 0; i < len(from.pairs); i += 2 {
		elements = append(elements, storeElement{cText(from.pairs[i]), cText(from.pairs[i+1])})
	}
	set := &store{count: uint32(len(elements)), elements: unsafe.SliceData(elements)}
	mechs := &oidSet{count: 1, elements: kerberos}
	if major := m.acquireFrom(&minor, name, indefinite, mechs, usageInitiate, set, &m.cred, nil, nil); major != 0 {
		return nil, m.failure(major, minor)
	}
	runtime.KeepAlive(elements)
	if len(enctypes) > 0 {
		if major := m.setEnctypes(&minor, m.cred, uint32(len(enctypes)), &enctypes[0]); major != 0 {
			return nil, m.failure(major, minor)
		}
	}
	token, _, failure := m.initiate(nil)
	return token, failure
}

// step makes the next token (gss_init_sec_context). It asks for mutual
// authentication, and never delegates the ticket.
func (m *making) step(answer []byte) ([]byte, bool, error) {
	token, complete, failure := m.initiate(answer)
	if failure != nil {
		return nil, false, failure
	}
	return token, complete, nil
}

func (m *making) initiate(answer []byte) (token []byte, complete bool, _ *wire.Failure) {
	var minor, lasts uint32
	var in *buffer
	if answer != nil {
		in = newBuffer(answer)
	}
	out := new(buffer)
	major := m.initContext(&minor, m.cred, &m.context, m.target, kerberos, wantMutual, 0, m.bindings, in, nil, out, nil, &lasts)
	runtime.KeepAlive(answer)
	if major != 0 && major != continueNeeded {
		failure := m.failure(major, minor)
		if failure.Reason == wire.Clock && answer != nil {
			failure.Words = clockWords(answer)
		}
		return nil, false, failure
	}
	if token = m.take(out); lasts == 0 { // the library has some seconds in which it still makes tokens
		return nil, false, m.failure(contextExpired, 0)
	}
	return token, major == 0, nil
}

// keys exports the complete context, which ends it for the library.
func (m *making) keys() (*wire.Keys, error) {
	var minor uint32
	var user handle
	if major := m.inquireContext(&minor, m.context, &user, nil, nil, nil, nil, nil, nil); major != 0 {
		return nil, m.failure(major, minor)
	}
	text := new(buffer)
	if major := m.displayName(&minor, user, text, nil); major != 0 {
		return nil, m.failure(major, minor)
	}
	keys := &wire.Keys{User: string(m.take(text))}
	var lucid *lucidContext
	if major := m.exportLucid(&minor, &m.context, 1, &lucid); major != 0 {
		return nil, m.failure(major, minor)
	}
	defer m.freeLucid(&minor, lucid)
	if lucid.protocol != 1 {
		return nil, &wire.Failure{Words: "the server has a key of an encryption type that is too old (RFC 4121 needs AES): renew the keys of " + m.service}
	}
	key := lucid.key
	if keys.Subkey = lucid.haveSubkey != 0; keys.Subkey {
		key = lucid.subkey
	}
	keys.Enctype, keys.Sequence, keys.Expires = key.enctype, lucid.sendSequence, uint64(lucid.endTime)
	keys.Key = append(keys.Key, unsafe.Slice(key.data, key.length)...)
	return keys, nil
}

// failure explains an error of the library.
func (m *making) failure(major, minor uint32) *wire.Failure {
	return m.explain(m.library.failure(major, minor))
}

// failure classifies an error.

func (l *library) failure(major, minor uint32) *wire.Failure {
	words := l.text(minor, statusMinor)
	if words == "Success" || strings.HasPrefix(words, "Unknown error") {
		words = l.text(major, statusMajor)
	}
	return &wire.Failure{Reason: reasonOf(major, minor), Words: words}
}

// explain puts the cache and the remedy into an error.
func (m *making) explain(f *wire.Failure) *wire.Failure {
	if f.Reason != wire.NoTicket && f.Reason != wire.Expired {
		f.Words = remedy(f.Reason, m.service, f.Words)
		return f
	}
	if m.from.keytab != "" {
		f.Words = fmt.Sprintf("no ticket by the keytab %s (%s)", m.from.keytab, f.Words)
		return f
	}
	cache, ended := m.look(m.from.cache)
	f.Cache, f.Ended = cache, ended
	f.Reason, f.Words = ticketWords(cache, ended)
	return f
}
