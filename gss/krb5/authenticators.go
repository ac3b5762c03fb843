package krb5

import (
	"container/heap"
	"container/list"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/gss"
)

const (
	maxAuthenticators = 1 << 20                // some 200 bytes each
	maxOfPrincipal    = maxAuthenticators / 16 // of one client
	maxExpired        = 64                     // removed at once
)

// authenticators are those that an acceptor has seen (RFC 4120, Section 3.2.3).
// One that comes a second time is a replay. Each is forgotten when its own time
// is too far in the past for it to be taken, which is at most 2 * Skew later.
// Their number is bounded: a client with more than its share loses its oldest one, and
// the client with the most does when all places are taken. A repeated AP-REQ is
// useless even then, because the acceptor's subkey is a new one each time.
type authenticators struct {
	max, maxOfPrincipal int

	mu      sync.Mutex
	seen    map[authenticatorSum]struct{}
	order   list.List // of *seenAuthenticator, the oldest first
	clients map[string]*seenClient
	largest seenClients
}

// An authenticatorSum is the beginning of the SHA-256 of a ciphertext.
type authenticatorSum [16]byte

// A seenAuthenticator has its places in the two lists.
type seenAuthenticator struct {
	sum    authenticatorSum
	client *seenClient
	until  time.Time
	all    *list.Element // in order
}

// A seenClient is a principal with authenticators.
type seenClient struct {
	name  string
	own   list.List // of *seenAuthenticator, the oldest first
	place int       // in authenticators.largest
}

func newAuthenticators(maxAll, maxOfPrincipal int) *authenticators {
	return &authenticators{
		max: maxAll, maxOfPrincipal: maxOfPrincipal,
		seen: make(map[authenticatorSum]struct{}), clients: make(map[string]*seenClient),
	}
}

// add adds the authenticator with that ciphertext, and returns false if that has come
// before, in one step. Only an authenticator that was decrypted may be added.
func (a *authenticators) add(cipher []byte, client gss.Principal, now time.Time) bool {
	full := sha256.Sum256(cipher)
	sum := authenticatorSum(full[:len(authenticatorSum{})])
	name := principalText(client)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.expireLocked(now)
	if _, met := a.seen[sum]; met {
		return false
	}
	if c := a.clients[name]; c != nil && c.own.Len() >= a.maxOfPrincipal {
		a.removeLocked(c.own.Front().Value.(*seenAuthenticator))
	}
	if a.order.Len() >= a.max {
		a.removeLocked(a.largest[0].own.Front().Value.(*seenAuthenticator))
	}
	c := a.clients[name]
	if c == nil {
		c = &seenClient{name: name}
		a.clients[name] = c
		heap.Push(&a.largest, c)
	}
	s := &seenAuthenticator{sum: sum, client: c, until: now.Add(2 * Skew)}
	s.all = a.order.PushBack(s)
	c.own.PushBack(s)
	heap.Fix(&a.largest, c.place)
	a.seen[sum] = struct{}{}
	return true
}

// expireLocked removes some of those whose time has ended. The lists are in the order
// of their ends, unless the clock was set back.
func (a *authenticators) expireLocked(now time.Time) {
	for range maxExpired {
		e := a.order.Front()
		if e == nil || !now.After(e.Value.(*seenAuthenticator).until) {
			return
		}
		a.removeLocked(e.Value.(*seenAuthenticator))
	}
}

// removeLocked removes a client's oldest authenticator.
func (a *authenticators) removeLocked(s *seenAuthenticator) {
	delete(a.seen, s.sum)
	a.order.Remove(s.all)
	c := s.client
	c.own.Remove(c.own.Front())
	heap.Fix(&a.largest, c.place)
	if c.own.Len() == 0 {
		heap.Remove(&a.largest, c.place)
		delete(a.clients, c.name)
	}
}

// seenClients is a heap (package container/heap) of clients, the one with the most
// authenticators first.
type seenClients []*seenClient

func (h seenClients) Len() int           { return len(h) }
func (h seenClients) Less(i, j int) bool { return h[i].own.Len() > h[j].own.Len() }
func (h seenClients) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *seenClients) Push(x any) {
	c := x.(*seenClient)
	c.place = len(*h)
	*h = append(*h, c)
}

func (h *seenClients) Pop() any {
	last := len(*h) - 1
	c := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return c
}
