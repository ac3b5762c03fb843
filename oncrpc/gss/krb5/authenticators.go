package krb5

import (
	"container/heap"
	"container/list"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
)

const (
	maxAuthenticators = 1 << 20                // some 200 bytes each
	maxPerPrincipal   = maxAuthenticators / 16 // for one client
	maxExpired        = 64                     // number removed in one call
)

// replayCache stores the authenticators that an acceptor has received (RFC 4120, Section
// 3.2.3). One that arrives a second time is a replay. Each entry expires when its
// authenticator is too old to be accepted, at most 2 * Skew later. The number of entries
// is bounded: a client with more than its share loses its oldest one; when the cache is
// full, the client with the most does. A replayed AP-REQ is useless even then, because
// the acceptor creates a new subkey each time.
type replayCache struct {
	max, maxPerPrincipal int

	mu      sync.Mutex
	seen    map[authenticatorSum]struct{}
	order   list.List // contains *seenAuthenticator, the oldest first
	clients map[string]*seenClient
	largest seenClients
}

// An authenticatorSum is the first 16 bytes of a ciphertext's SHA-256.
type authenticatorSum [16]byte

// A seenAuthenticator is an entry, which is in two lists.
type seenAuthenticator struct {
	sum          authenticatorSum
	client       *seenClient
	expires      time.Time
	orderElement *list.Element // in order
}

// A seenClient is a principal with authenticators.
type seenClient struct {
	name           string
	authenticators list.List // contains *seenAuthenticator, the oldest first
	heapIndex      int       // in authenticators.largest
}

func newReplayCache(maxAll, maxOfPrincipal int) *replayCache {
	return &replayCache{
		max: maxAll, maxPerPrincipal: maxOfPrincipal,
		seen: make(map[authenticatorSum]struct{}), clients: make(map[string]*seenClient),
	}
}

// addUnseen atomically adds the authenticator with that ciphertext, and returns false if
// it was already added. Only a decrypted authenticator may be added.
func (a *replayCache) addUnseen(cipher []byte, client gss.Principal, now time.Time) bool {
	full := sha256.Sum256(cipher)
	sum := authenticatorSum(full[:len(authenticatorSum{})])
	name := principalText(client)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.expireLocked(now)
	if _, replayed := a.seen[sum]; replayed {
		return false
	}
	if c := a.clients[name]; c != nil && c.authenticators.Len() >= a.maxPerPrincipal {
		a.removeLocked(c.authenticators.Front().Value.(*seenAuthenticator))
	}
	if a.order.Len() >= a.max {
		a.removeLocked(a.largest[0].authenticators.Front().Value.(*seenAuthenticator))
	}
	c := a.clients[name]
	if c == nil {
		c = &seenClient{name: name}
		a.clients[name] = c
		heap.Push(&a.largest, c)
	}
	s := &seenAuthenticator{sum: sum, client: c, expires: now.Add(2 * Skew)}
	s.orderElement = a.order.PushBack(s)
	c.authenticators.PushBack(s)
	heap.Fix(&a.largest, c.heapIndex)
	a.seen[sum] = struct{}{}
	return true
}

// expireLocked removes some expired entries. The lists are in the order of expiry, unless
// the clock was set back.
func (a *replayCache) expireLocked(now time.Time) {
	for range maxExpired {
		e := a.order.Front()
		if e == nil || !now.After(e.Value.(*seenAuthenticator).expires) {
			return
		}
		a.removeLocked(e.Value.(*seenAuthenticator))
	}
}

// removeLocked removes a client's oldest authenticator.
func (a *replayCache) removeLocked(s *seenAuthenticator) {
	delete(a.seen, s.sum)
	a.order.Remove(s.orderElement)
	c := s.client
	c.authenticators.Remove(c.authenticators.Front())
	heap.Fix(&a.largest, c.heapIndex)
	if c.authenticators.Len() == 0 {
		heap.Remove(&a.largest, c.heapIndex)
		delete(a.clients, c.name)
	}
}

// seenClients is a heap (package container/heap), which has the client with the most
// authenticators first.
type seenClients []*seenClient

func (h seenClients) Len() int { return len(h) }
func (h seenClients) Less(i, j int) bool {
	return h[i].authenticators.Len() > h[j].authenticators.Len()
}

func (h seenClients) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heapIndex, h[j].heapIndex = i, j
}

func (h *seenClients) Push(x any) {
	c := x.(*seenClient)
	c.heapIndex = len(*h)
	*h = append(*h, c)
}

func (h *seenClients) Pop() any {
	last := len(*h) - 1
	c := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return c
}
