package krb5

import (
	"container/list"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/gss"
)

const (
	maxAuthenticators = 1 << 20                // some 200 bytes each
	maxOfPrincipal    = maxAuthenticators / 16 // of one client
)

// authenticators are those that an acceptor has seen (RFC 4120, Section 3.2.3).
// One that comes a second time is a replay. Each is forgotten when its own time
// is too far in the past for it to be taken, which is at most 2 * Skew later.
// Their number is bounded: a client with more than its share, or when all places
// are taken, loses its oldest one. A repeated AP-REQ is useless even then,
// because the acceptor's subkey is a new one each time.
type authenticators struct {
	max, maxOfPrincipal int

	mu      sync.Mutex
	seen    map[authenticatorSum]struct{}
	order   list.List // of *seenAuthenticator, the oldest first
	clients map[string]*list.List
}

// An authenticatorSum is the beginning of the SHA-256 of a ciphertext.
type authenticatorSum [16]byte

// A seenAuthenticator has its places in the two lists.
type seenAuthenticator struct {
	sum    authenticatorSum
	client string
	until  time.Time
	all    *list.Element // in order
}

func newAuthenticators(maxAll, maxOfPrincipal int) *authenticators {
	return &authenticators{
		max: maxAll, maxOfPrincipal: maxOfPrincipal,
		seen: make(map[authenticatorSum]struct{}), clients: make(map[string]*list.List),
	}
}

// A novelty says what add found.
type novelty int

const (
	novel novelty = iota
	replayed
	noPlace
)

// add looks for the authenticator with that ciphertext, and adds it, in one step.
// Only an authenticator that was decrypted may be added.
func (a *authenticators) add(cipher []byte, client gss.Principal, now time.Time) novelty {
	full := sha256.Sum256(cipher)
	sum := authenticatorSum(full[:len(authenticatorSum{})])
	name := principalText(client)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.expireLocked(now)
	if _, met := a.seen[sum]; met {
		return replayed
	}
	own := a.clients[name]
	if own != nil && (own.Len() >= a.maxOfPrincipal || a.order.Len() >= a.max) {
		a.removeLocked(own.Front().Value.(*seenAuthenticator))
		own = a.clients[name] // nil if that was the only one
	}
	if a.order.Len() >= a.max {
		return noPlace
	}
	if own == nil {
		own = list.New()
		a.clients[name] = own
	}
	s := &seenAuthenticator{sum: sum, client: name, until: now.Add(2 * Skew)}
	s.all = a.order.PushBack(s)
	own.PushBack(s)
	a.seen[sum] = struct{}{}
	return novel
}

// expireLocked removes those whose time has ended. The lists are in the order of
// their ends, unless the clock was set back.
func (a *authenticators) expireLocked(now time.Time) {
	for e := a.order.Front(); e != nil; e = a.order.Front() {
		s := e.Value.(*seenAuthenticator)
		if now.Before(s.until) || now.Equal(s.until) {
			return
		}
		a.removeLocked(s)
	}
}

// removeLocked removes a client's oldest authenticator.
func (a *authenticators) removeLocked(s *seenAuthenticator) {
	delete(a.seen, s.sum)
	a.order.Remove(s.all)
	own := a.clients[s.client]
	own.Remove(own.Front())
	if own.Len() == 0 {
		delete(a.clients, s.client)
	}
}
