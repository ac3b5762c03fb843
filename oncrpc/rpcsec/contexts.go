package rpcsec

import (
	"container/heap"
	"container/list"
	"crypto/rand"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// A handle identifies a context.
type handle [handleLen]byte

// A serverContext is the server's end of a context. It belongs to the server, not to the
// connection over which it was established.
type serverContext struct {
	gss.Context
	handle    handle
	principal gss.Principal
	name      string // the principal's name, for logs and the replay cache
	expires   time.Time
	received  sequenceWindow
	user      atomic.Uint64 // see recordUser
	removed   atomic.Bool   // removed from the table
	back      backNumbers

	// The table's lock guards the fields below.
	inUse   int // in flight
	owner   *party
	element *list.Element // in owner.contexts; nil: removed from the table
}

// mappedFlag is set in serverContext.user if the principal has a user.
const mappedFlag = 1 << 32

// recordUser stores a call's user, for lists.
func (k *serverContext) recordUser(who *rpcmsg.Cred) {
	user := uint64(who.UID)
	if !who.Anonymous {
		user |= mappedFlag
	}
	if k.user.Load() != user { // avoids writing a shared cache line for each call
		k.user.Store(user)
	}
}

// A contextTable has a server's contexts, up to a limit. Beyond that, the party with the
// most contexts loses its least recently used one; if calls use all its contexts, another
// party does.
type contextTable struct {
	max int

	mu       sync.Mutex
	contexts map[handle]*serverContext
	parties  map[fairshare.Name]*party
	largest  parties
	evicted  uint64
	expired  uint64
}

// A party is the set of contexts established from one address.
type party struct {
	name      fairshare.Name
	contexts  *list.List // contains *serverContext, the least recently used first
	heapIndex int        // in table.largest
}

func newContextTable(limit int) *contextTable {
	return &contextTable{max: limit, contexts: make(map[handle]*serverContext), parties: make(map[fairshare.Name]*party)}
}

// add adds a context with a new handle. It returns false if the table is full and all
// contexts are in use.
func (t *contextTable) add(k *serverContext, by fairshare.Name) bool {
	_, _ = rand.Read(k.handle[:]) // never fails
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.parties[by]; p != nil {
		t.expireLocked(p)
	}
	if len(t.contexts) >= t.max && !t.evictLocked() {
		return false
	}
	p := t.parties[by]
	if p == nil {
		p = &party{name: by, contexts: list.New()}
		t.parties[by] = p
		heap.Push(&t.largest, p)
	}
	k.owner, k.element = p, p.contexts.PushBack(k)
	heap.Fix(&t.largest, p.heapIndex)
	t.contexts[k.handle] = k
	return true
}

// expireLocked removes some of a party's expired contexts, beginning with the least
// recently used (RFC 2203, Section 5.4).
func (t *contextTable) expireLocked(p *party) {
	now := time.Now()
	for range maxExpiredRemovals {
		e := p.contexts.Front()
		if e == nil {
			return
		}
		k := e.Value.(*serverContext)
		if k.inUse > 0 || !now.After(k.expires) {
			return
		}
		t.removeLocked(k)
		t.expired++
	}
}

// evictLocked removes a context that is not in use.
func (t *contextTable) evictLocked() bool {
	for _, p := range t.largest { // the first has the most; if all its contexts are in use, the order matters little
		for e := p.contexts.Front(); e != nil; e = e.Next() {
			if k := e.Value.(*serverContext); k.inUse == 0 {
				t.removeLocked(k)
				t.evicted++
				return true
			}
		}
	}
	return false
}

// removeLocked removes a context, unless that was done before.
func (t *contextTable) removeLocked(k *serverContext) {
	if k.element == nil {
		return
	}
	p := k.owner
	p.contexts.Remove(k.element)
	k.element = nil
	k.removed.Store(true)
	delete(t.contexts, k.handle)
	heap.Fix(&t.largest, p.heapIndex)
	if p.contexts.Len() == 0 {
		heap.Remove(&t.largest, p.heapIndex)
		delete(t.parties, p.name)
	}
}

// acquire returns the context with a handle, or nil. The call must release it.
func (t *contextTable) acquire(h []byte) *serverContext {
	if len(h) != handleLen {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.contexts[handle(h)]
	if k != nil {
		k.inUse++
		k.owner.contexts.MoveToBack(k.element)
	}
	return k
}

// release releases a context that a call used.
func (t *contextTable) release(k *serverContext) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k.inUse--
}

// remove removes a context. Calls that use it continue. It returns false if the context
// was already removed.
func (t *contextTable) remove(k *serverContext) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := k.element != nil
	t.removeLocked(k)
	return was
}

// stats returns the number of contexts, and the numbers that add has removed.
func (t *contextTable) stats() (n int, evicted, expired uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.contexts), t.evicted, t.expired
}

// listContexts returns up to limit contexts, those of the party with the most first, and
// the total number.
func (t *contextTable) listContexts(limit int) (list []ContextInfo, all int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.largest {
		for e := p.contexts.Back(); e != nil && len(list) < limit; e = e.Prev() {
			k := e.Value.(*serverContext)
			user := k.user.Load()
			list = append(list, ContextInfo{
				Principal: k.name, Client: p.name.String(), Mechanism: k.Mechanism(), Expires: k.Expires(),
				UID: uint32(user), Mapped: user&mappedFlag != 0, Calls: k.inUse,
			})
		}
	}
	return list, len(t.contexts)
}

// parties is a heap (package container/heap) of the parties, which has the one with the
// most contexts first.
type parties []*party

func (h parties) Len() int           { return len(h) }
func (h parties) Less(i, j int) bool { return h[i].contexts.Len() > h[j].contexts.Len() }
func (h parties) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heapIndex, h[j].heapIndex = i, j
}

func (h *parties) Push(x any) {
	p := x.(*party)
	p.heapIndex = len(*h)
	*h = append(*h, p)
}

func (h *parties) Pop() any {
	last := len(*h) - 1
	p := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return p
}
